"""Dividing a graph that one machine holds, and how well it is divided."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import check_count
from tg_crepe._optional import require
from tg_crepe.distributed.shard import Shard
from tg_crepe.graph.canonical import CanonicalGraph


def partition_graph(graph: CanonicalGraph, parts: int, seed: int = 0) -> Tensor:
    """Divides a graph that one machine holds into parts with about as many edges each and few edges between them.

    `METIS <https://doi.org/10.1137/S1064827595287997>`_ does it; a node weighs as much as it has edges.

    Args:
        graph (CanonicalGraph): The graph.
        parts (int): The number of parts.
        seed (int, optional): The seed. (default: :obj:`0`)

    Returns:
        torch.Tensor: The part of every node, of shape :obj:`[num_nodes]`.
    """
    check_parts(parts, graph.num_nodes)
    rowptr, col, _ = graph.csr_pattern
    degree = np.diff(rowptr.numpy())
    return torch.from_numpy(metis(rowptr.numpy(), col.numpy(), np.maximum(degree, 1), None, parts, seed))


def check_parts(parts: int, num_nodes: int) -> None:
    """Raise unless so many parts can have a node each."""
    check_count("parts", parts, high=num_nodes, high_name="num_nodes")


def metis(
    rowptr: np.ndarray, col: np.ndarray, node_weight: np.ndarray, edge_weight: np.ndarray | None, parts: int, seed: int
) -> np.ndarray:
    """The part of every node of a symmetric graph in CSR form with integer weights, none of the parts empty."""
    pymetis = require("pymetis", extra="distributed")
    num_nodes = len(rowptr) - 1
    if parts == 1:
        return np.zeros(num_nodes, np.int64)
    adjacency = pymetis.CSRAdjacency(rowptr, col)
    options = pymetis.Options(seed=seed)
    found = pymetis.part_graph(parts, adjacency, vweights=node_weight, eweights=edge_weight, options=options)
    part = np.asarray(found.vertex_part, np.int64)
    _fill_empty(part, node_weight, parts)
    return part


def _fill_empty(part: np.ndarray, node_weight: np.ndarray, parts: int) -> None:
    """Gives each part without a node one of the heaviest part that has several; only tiny graphs need it."""
    for empty in np.setdiff1d(np.arange(parts), part):
        several = np.flatnonzero(np.bincount(part, minlength=parts) > 1)
        heaviest = several[np.bincount(part, node_weight, parts)[several].argmax()]
        part[np.flatnonzero(part == heaviest)[-1]] = empty


@dataclass(frozen=True)
class ShardSize:
    """The size of one shard: own nodes, directed edges, those of them that leave the shard, and the halo."""

    nodes: int
    edges: int
    cut: int
    halo: int

    @staticmethod
    def of(shard: Shard) -> ShardSize:
        """Counts a shard."""
        cut = int((shard.col >= shard.num_own).sum())
        return ShardSize(shard.num_own, shard.col.numel(), cut, shard.num_halo)


@dataclass(frozen=True)
class PartitionReport:
    r"""How well a graph is divided.

    .. math::
        \text{cut} = \frac{\#\{ij : r_i \neq r_j\}}{\#\{ij\}}, \qquad
        \text{imbalance} = \frac{\max_r m_r}{\frac{1}{P} \sum_r m_r},

    where :math:`r_i` is the rank of node :math:`i` and :math:`m_r` the number of directed edges of rank :math:`r`.

    Args:
        sizes (list): The size of every shard, in the order of ranks.
    """

    sizes: list[ShardSize]

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return sum(size.edges for size in self.sizes) // 2

    @property
    def cut_edges(self) -> int:
        """The number of undirected edges between two ranks."""
        return sum(size.cut for size in self.sizes) // 2  # each is counted by both

    @property
    def cut(self) -> float:
        """The share of the edges that are between two ranks."""
        return self.cut_edges / max(self.num_edges, 1)

    @property
    def imbalance(self) -> float:
        """Edges of the largest rank over the mean; 1 is even."""
        edges = [size.edges for size in self.sizes]
        return max(edges) * len(edges) / max(sum(edges), 1)

    def as_dict(self) -> dict[str, Any]:
        """The report as the manifest keeps it."""
        totals = {"num_edges": self.num_edges, "cut_edges": self.cut_edges, "cut": self.cut}
        return {**totals, "imbalance": self.imbalance, "parts": [asdict(size) for size in self.sizes]}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> PartitionReport:
        """The report that a manifest keeps."""
        return PartitionReport([ShardSize(**size) for size in content["parts"]])
