"""Fashion-MNIST as features without any learning: the pixels' 128 principal components, read from TG_CREPE_DATA."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import torch


def read() -> tuple[torch.Tensor, torch.Tensor]:
    """Images of shape [70000, 28, 28] in bytes and their classes, training images first."""
    root = os.environ.get("TG_CREPE_DATA")
    if not root:
        raise SystemExit("TG_CREPE_DATA must name the folder that holds fashion_mnist/*-ubyte.gz")
    folder = Path(root) / "fashion_mnist"
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for part in ("train", "t10k"):
        for name, header, found in (("images-idx3", 16, images), ("labels-idx1", 8, labels)):
            with gzip.open(folder / f"{part}-{name}-ubyte.gz") as file:
                found.append(np.frombuffer(file.read(), np.uint8, offset=header))
    pixels = torch.from_numpy(np.concatenate(images).reshape(-1, 28, 28))
    return pixels, torch.from_numpy(np.concatenate(labels).astype(np.int64))


def load(limit: int = 70_000) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of shape [N, 128] and classes of the first ``limit`` images, training images first."""
    images, y = read()
    x = images[:limit].flatten(1).float() / 255
    x -= x.mean(dim=0)
    _, vectors = torch.linalg.eigh(x.t() @ x)
    return (x @ vectors[:, -128:].flip(1)).contiguous(), y[:limit]


def choose_labels(y: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    """A stratified random choice of ``count`` labels per class."""
    rng = np.random.default_rng(seed)
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    for c in range(int(y.max()) + 1):
        mask[rng.choice(np.flatnonzero(y.numpy() == c), count, replace=False)] = True
    return mask
