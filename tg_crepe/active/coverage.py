from __future__ import annotations

import heapq

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph


def choose_covering(value: Tensor, graph: CanonicalGraph, candidate: Tensor, n: int) -> Tensor:
    r"""Chooses nodes whose neighbourhoods hold the most value that is not covered yet.

    .. math::
        F(A) = \sum_j \text{value}_j \left( 1 - \prod_{i \in A} (1 - s_{ij}) \right), \qquad
        s_{ij} = \frac{w_{ij}}{\max_k w_{jk}}, \quad s_{jj} = 1,

    where :math:`A` are the chosen nodes. :math:`F` is submodular, so choosing the node of the largest gain again and
    again is within :math:`1 - 1/e` of the best choice. A node in a dense doubtful region covers much; a second one
    beside it covers little, and a neighbour of a chosen node is not chosen at all while there are others.

    Args:
        value (torch.Tensor): What is to be covered, not negative, of shape :obj:`[num_nodes]`.
        graph (CanonicalGraph): The graph.
        candidate (torch.Tensor): The nodes that may be chosen, bool of shape :obj:`[num_nodes]`.
        n (int): How many, at most the number of candidates.

    Returns:
        torch.Tensor: The nodes in the order of their choice, of shape :obj:`[n]`.
    """
    rowptr, col, similarity = _similarity(graph)
    left, blocked = value.double().clone(), ~candidate
    chosen: list[int] = []
    while len(chosen) < n:
        if bool(blocked.all()):  # every candidate is chosen or beside a chosen one: now the latter may be chosen too
            blocked = ~candidate
            blocked[chosen] = True
        gain = left + torch.segment_reduce(similarity * left[col], "sum", lengths=rowptr.diff(), unsafe=True)
        heap = [(-value, node) for node, value in enumerate(gain.tolist()) if not blocked[node]]
        heapq.heapify(heap)
        _take_greedily(heap, left, blocked, chosen, rowptr, col, similarity, n)
    return torch.tensor(chosen, device=value.device)


def _take_greedily(
    heap: list[tuple[float, int]],
    left: Tensor,
    blocked: Tensor,
    chosen: list[int],
    rowptr: Tensor,
    col: Tensor,
    similarity: Tensor,
    n: int,
) -> None:
    """The lazy greedy choice: gains only fall, so a node whose gain is still the largest need not be compared."""
    while heap and len(chosen) < n:
        _, node = heapq.heappop(heap)
        if blocked[node]:
            continue
        around = slice(int(rowptr[node]), int(rowptr[node + 1]))
        gain = float(left[node] + similarity[around] @ left[col[around]])
        if heap and (-gain, node) > heap[0]:
            heapq.heappush(heap, (-gain, node))
            continue
        chosen.append(node)
        left[col[around]] *= 1 - similarity[around]
        left[node] = 0
        blocked[node] = True
        blocked[col[around]] = True


def _similarity(graph: CanonicalGraph) -> tuple[Tensor, Tensor, Tensor]:
    """The directed edges by node, and how far a node covers the other end, between 0 and 1."""
    rowptr, col, edge = (part.long() for part in graph.csr_pattern)
    weight = graph.edge_weight.double()
    largest = weight.new_zeros(graph.num_nodes)
    for end in graph.edge_index:
        largest.scatter_reduce_(0, end, weight, reduce="amax")
    return rowptr, col, weight[edge] / largest[col]
