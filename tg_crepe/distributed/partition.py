from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import check_count
from tg_crepe._optional import require
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
