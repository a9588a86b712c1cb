"""What a benchmark ran on, and how its results are written."""

from __future__ import annotations

import csv
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_ROOT = Path(__file__).parents[2]

#: Where the tables are kept, and the pages and pictures that are made of them.
RESULTS, DOCS = _ROOT / "benchmarks" / "results", _ROOT / "docs"


def describe() -> str:
    """One line: processor, cores, threads, versions."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    packages = []
    for name in ("torch", "torch-geometric", "numba", "faiss-cpu", "graphlearning", "scikit-learn"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    threads = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{model}, {threads}, Python {platform.python_version()}, {', '.join(packages)}"


def cache_folder() -> Path:
    """Where features, graphs and cells are kept between runs."""
    return Path(os.environ.get("TG_CREPE_CACHE", Path.home() / ".cache" / "tg_crepe"))


def write_csv(rows: list[dict[str, object]], path: Path) -> None:
    """Writes rows under a temporary name and renames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    temporary.replace(path)


def write_text(text: str, path: Path) -> None:
    """Writes a text under a temporary name and renames."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
