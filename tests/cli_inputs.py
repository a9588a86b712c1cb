"""Small inputs for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def cluster_points() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Sixty points in three clusters, their classes, and their names, which are out of order."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 4)) * 0.3 + np.eye(3, 4)[y] * 4
    return x.astype(np.float32), y, [f"p{(37 * i) % 60:02d}" for i in range(60)]


def write_clusters(folder: Path) -> None:
    """Writes features.npz, and labels.csv with two labels of each cluster, in another order."""
    x, y, ids = cluster_points()
    np.savez(folder / "features.npz", x=x, ids=np.array(ids))
    names = ("red", "green", "blue")
    rows = [f"{ids[i]},{names[y[i]] if i < 6 else ''}" for i in reversed(range(60))]
    (folder / "labels.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
