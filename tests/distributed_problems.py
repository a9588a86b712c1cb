"""Labelled graphs that the tests of several processes share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons
from torch import Tensor

from tg_crepe import knn_graph


@dataclass(frozen=True)
class SharedProblem:
    edge_index: Tensor
    edge_weight: Tensor
    y: Tensor
    mask: Tensor

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    def owner(self, world_size: int, seed: int = 100) -> Tensor:
        """Nodes dealt out at random, parts of different sizes: nearly all nodes have edges to other ranks."""
        generator = torch.Generator().manual_seed(seed)
        return (torch.rand(self.y.size(0), generator=generator) ** 1.5 * world_size).long()

    def blocks(self, world_size: int) -> Tensor:
        """Nodes in the order of their numbers, so that some have no edge to another rank."""
        return torch.arange(self.y.size(0)) * world_size // self.y.size(0)

    def start(self) -> Tensor:
        """Class functions that know the classes under some noise."""
        generator = torch.Generator().manual_seed(101)
        noise = torch.randn(self.y.size(0), self.num_classes, generator=generator, dtype=torch.float64)
        return (torch.nn.functional.one_hot(self.y, self.num_classes) + 0.3 * noise).to(self.edge_weight.dtype)


def moons(dtype: torch.dtype = torch.float32, num_nodes: int = 160, labels: int = 3) -> SharedProblem:
    x, y = make_moons(num_nodes, noise=0.1, random_state=100)
    return _problem(x, y, dtype, "euclidean", 8, labels)


def digits(dtype: torch.dtype = torch.float32, num_nodes: int = 300, labels: int = 4) -> SharedProblem:
    x, y = load_digits(return_X_y=True)
    return _problem(x[:num_nodes], y[:num_nodes], dtype, "cosine", 8, labels)


def islands(dtype: torch.dtype = torch.float64) -> SharedProblem:
    """Two moons, of which only one part is labelled, beside a triangle without a label and two isolated nodes."""
    part = moons(dtype, 80)
    count = part.y.size(0)
    edge_index = torch.cat([part.edge_index, count + torch.tensor([[0, 1, 2], [1, 2, 0]])], dim=1)
    edge_weight = torch.cat([part.edge_weight, torch.ones(3, dtype=dtype)])
    y, mask = torch.cat([part.y, torch.zeros(5, dtype=torch.long)]), torch.cat([part.mask, torch.zeros(5, dtype=bool)])
    mask[-1] = True  # isolated and labelled: it keeps its label
    return SharedProblem(edge_index, edge_weight, y, mask)


def fashion_images(root: Path) -> tuple[Tensor, Tensor]:
    """The first 20,000 images of Fashion-MNIST as rows of pixels, and their classes."""
    from tg_crepe.datasets import get_dataset

    dataset = get_dataset("fashion_mnist", root)
    return dataset.fetch(torch.arange(20_000)).flatten(1), dataset.targets[:20_000]


def _problem(x: np.ndarray, y: np.ndarray, dtype: torch.dtype, metric: str, k: int, labels: int) -> SharedProblem:
    edge_index, edge_weight = knn_graph(torch.from_numpy(x).to(dtype), k, metric)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for label in range(int(y.max()) + 1):
        mask[np.flatnonzero(y == label)[:labels]] = True
    return SharedProblem(edge_index, edge_weight, torch.from_numpy(y), mask)
