"""The problems of ``calibration.py``: a data set, its graph and some labels."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch
from shared import features
from shared.splits import Split, choose_labels
from torch import Tensor

from tg_crepe import knn_graph

#: Nodes of Fashion-MNIST that take part: enough for the shape of a curve, and a run takes a second.
FASHION_NODES = 7_000


@dataclass(frozen=True)
class Case:
    """A column of a table.

    Args:
        data (str): A name of :mod:`shared.features`.
        split (Split): How many labels there are.
        k (int): Neighbours in the graph. (default: 0, those of the data set)
    """

    data: str
    split: Split
    k: int = 0

    @property
    def title(self) -> str:
        """What a table calls it."""
        name = {"fashion": "Fashion-MNIST", "pneumonia": "PneumoniaMNIST", "breast": "BreastMNIST"}
        parts = [name.get(self.data, self.data.capitalize()), str(self.split)]
        return ", ".join(parts + ([f"k = {self.k}"] if self.k else []))


@dataclass(frozen=True)
class Problem:
    """Labels on a graph, and the truth."""

    truth: Tensor  # [num_nodes]
    mask: Tensor  # [num_nodes], which nodes are labelled
    edge_index: Tensor  # [2, num_edges], both directions
    edge_weight: Tensor  # [num_edges]

    @property
    def y(self) -> Tensor:
        """What is said of the labelled nodes, -1 elsewhere."""
        return torch.where(self.mask, self.truth, -1)

    @property
    def tested(self) -> Tensor:
        """Which nodes count: those that are not labelled."""
        return ~self.mask


@functools.lru_cache(maxsize=8)
def _graph(name: str, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Classes, edges and weights."""
    data = features.load(name)
    if name == "fashion":
        data = replace(data, x=data.x[:FASHION_NODES], y=data.y[:FASHION_NODES])
    if data.x is None:
        return data.y, data.edge_index, torch.ones(data.edge_index.size(1))
    return data.y, *knn_graph(data.x, k or data.k, metric="euclidean")


def make_problem(case: Case, seed: int) -> Problem:
    """The problem of a case, a function of the case and the seed alone."""
    y, edge_index, edge_weight = _graph(case.data, case.k)
    return Problem(y, choose_labels(y, case.split, seed), edge_index, edge_weight)
