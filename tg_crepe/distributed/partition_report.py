from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tg_crepe.distributed.shard import Shard


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
