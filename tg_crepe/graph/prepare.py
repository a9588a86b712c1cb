from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._checks import read_array
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.typing import Adjacency, OptTensor
from tg_crepe.warnings import GraphWarning


@dataclass(frozen=True, eq=False)
class PreparedGraph(CanonicalGraph):
    """A graph with all that labels do not change: made by :func:`prepare`, taken wherever a graph is.

    It holds the edges once, the components, the order of the nodes that suits the memory, and the patterns and matrices
    of the part that labels reach. That part is kept for the last set of reached nodes; nothing of a label is.

    Args:
        symmetrize (str): How the two directions of an edge were combined.
        repairs (tuple): One phrase for each repair that was made.
    """

    symmetrize: str = "max"
    repairs: tuple[str, ...] = ()

    def check_use(self, edge_weight: OptTensor, num_nodes: int | None, symmetrize: str | None) -> None:
        """Raise where a call asks for another graph than this one."""
        if edge_weight is not None:
            raise ValueError("'edge_weight' must be None with a prepared graph (it holds the weights)")
        if num_nodes is not None and num_nodes != self.num_nodes:
            raise ValueError(f"the prepared graph must have as many nodes as asked for, {num_nodes}, got {self!r}")
        if symmetrize not in (None, self.symmetrize):
            raise ValueError(
                f"'symmetrize' must be that of the prepared graph, {self.symmetrize!r}, got {symmetrize!r}: "
                f"prepare(..., symmetrize={symmetrize!r})"
            )

    def compact(self, keep: Tensor) -> tuple[CanonicalGraph, Tensor]:
        """As that of any graph; the last answer is kept, with the matrices that solves have made of it."""
        last = self.__dict__.get("_compact")
        if last is None or not torch.equal(last[0], keep):
            last = (keep.clone(), *super().compact(keep))
            self.__dict__["_compact"] = last
        return last[1], last[2]

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.num_nodes} nodes, {self.num_edges} edges)"


def prepare(
    edge_index: Adjacency, edge_weight: OptTensor = None, num_nodes: int | None = None, symmetrize: str = "max"
) -> PreparedGraph:
    """Reads a graph once for many calls with other labels or other models.

    A call on a prepared graph gives the same answer to the last bit, and leaves out what does not depend on the labels.

    .. code-block:: python

        from tg_crepe import CrepePropagation, prepare

        graph = prepare(edge_index, edge_weight)
        for mask in masks:
            result = CrepePropagation().propagate(y, graph, mask)

    Args:
        edge_index: The graph, in any form that :meth:`~tg_crepe.EnergyModel.propagate` takes.
        edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
        num_nodes (int, optional): The number of nodes. (default: :obj:`None`, from the graph: nodes without an edge
            behind the last one need it)
        symmetrize (str, optional): How the two directions of an edge are combined, :obj:`"max"`, :obj:`"mean"` or
            :obj:`"mutual"`; that of the models that use the graph. (default: :obj:`"max"`)
    """
    from tg_crepe.graph.reading import canonical_graph  # it takes prepared graphs too

    edges, weight = read_array("edge_index", edge_index), read_array("edge_weight", edge_weight)
    graph, repairs = canonical_graph(edges, weight, num_nodes, symmetrize)
    if isinstance(graph, PreparedGraph):
        return graph
    if repairs:
        warnings.warn("the graph was repaired: " + "; ".join(repairs), GraphWarning, stacklevel=2)
    return prepare_canonical(graph, symmetrize, tuple(repairs))


def prepare_canonical(graph: CanonicalGraph, symmetrize: str = "max", repairs: tuple[str, ...] = ()) -> PreparedGraph:
    """As :func:`prepare`, of a graph that has been read.

    Args:
        graph (CanonicalGraph): The graph.
        symmetrize (str, optional): How the two directions of an edge were combined. (default: :obj:`"max"`)
        repairs (tuple, optional): One phrase for each repair that was made. (default: none)
    """
    graph = graph.in_safe_range()
    # The result shares no memory with the input.
    prepared = PreparedGraph(
        graph.edge_index, graph.edge_weight.clone(), graph.num_nodes, symmetrize=symmetrize, repairs=repairs
    )
    _ = prepared.component  # before the part is made: it takes them over
    inside = prepared.degree > 0
    if bool(inside.any()):
        part, _ = prepared.compact(inside)
        _ = part.csr_pattern, part.degree, part.component, part.num_components, part.normalised, part.adjacency
    return prepared
