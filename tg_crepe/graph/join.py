from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.typing import Adjacency, OptTensor

#: A graph as it is given: ``(edge_index, edge_weight)``, where the weights may be None, or a sparse matrix.
GivenGraph = tuple[Tensor, OptTensor] | Adjacency


def join_graphs(
    graphs: Sequence[GivenGraph],
    share: Sequence[float] | Tensor | None = None,
    num_nodes: int | None = None,
    symmetrize: str = "max",
) -> tuple[Tensor, Tensor]:
    r"""Several graphs of the same nodes as one, each with its share of the weight.

    .. math::
        W = \sum_g a_g \frac{W_g}{\bar{d}_g}, \qquad \bar{d}_g = \frac{1}{n} \sum_{ij} (W_g)_{ij}, \qquad
        \sum_g a_g = 1,

    where :math:`W_g` is the symmetric weight matrix of graph :math:`g`, :math:`\bar d_g` its mean degree and
    :math:`a_g` its share. All graphs are brought to the same mean degree first, so that neither the unit of one's
    weights nor its number of edges says anything; a graph without edges takes no part. A node that is isolated in one
    graph is reached through the others as long as their shares are not 0.

    .. code-block:: python

        from tg_crepe import join_graphs, knn_graph

        near = knn_graph(data.x, k=10, metric="cosine")
        edge_index, edge_weight = join_graphs([(data.edge_index, None), near])

    Labels can choose the shares: :func:`~tg_crepe.choose_shares`.

    Args:
        graphs (sequence): Pairs of an :obj:`edge_index` of shape :obj:`[2, num_edges]` and weights of shape
            :obj:`[num_edges]` or :obj:`None` (ones), or sparse matrices, all of the same nodes.
        share (sequence or torch.Tensor, optional): :math:`a`, numbers >= 0 that are scaled to sum to one, of shape
            :obj:`[num_graphs]`. (default: :obj:`None`, equal)
        num_nodes (int, optional): The number of nodes. (default: :obj:`None`, the largest that a graph knows of)
        symmetrize (str, optional): How the two directions of an edge of a graph are combined, see
            :func:`~tg_crepe.graph.canonical_graph`. (default: :obj:`"max"`)

    Returns:
        The edges in both directions, of shape :obj:`[2, num_edges]`, and their weights, of shape :obj:`[num_edges]`
        and mean degree one.
    """
    parts = read_graphs(graphs, num_nodes, symmetrize)
    graph = weighted_sum(parts, check_share(share, len(parts)))
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    return edge_index, torch.cat([graph.edge_weight, graph.edge_weight])


def read_graphs(
    graphs: Sequence[GivenGraph], num_nodes: int | None = None, symmetrize: str = "max"
) -> list[CanonicalGraph]:
    """The graphs in canonical form, on the same nodes, device and type."""
    if isinstance(graphs, Tensor) or not isinstance(graphs, Sequence) or not graphs:
        got = type(graphs).__name__
        raise ValueError(f"'graphs' must be a list of (edge_index, edge_weight), not empty, got {got}")
    parts = []
    for number, given in enumerate(graphs):
        edges, weight = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, None)
        try:
            parts.append(canonical_graph(edges, weight, num_nodes, symmetrize)[0])
        except ValueError as error:
            raise ValueError(f"graph {number} of 'graphs': {error}") from error
    devices = {part.edge_weight.device for part in parts}
    if len(devices) > 1:
        raise ValueError(f"'graphs' must be on one device, got {', '.join(sorted(map(str, devices)))}")
    most = max(part.num_nodes for part in parts)
    kind = torch.float64 if any(part.edge_weight.dtype == torch.float64 for part in parts) else torch.float32
    return [CanonicalGraph(part.edge_index, part.edge_weight.to(kind), most) for part in parts]


def check_share(share: Sequence[float] | Tensor | None, num_graphs: int) -> list[float]:
    """Shares that sum to one."""
    if share is None:
        return [1 / num_graphs] * num_graphs
    values = [float(value) for value in (share.tolist() if isinstance(share, Tensor) else share)]
    if len(values) != num_graphs or not all(math.isfinite(v) and v >= 0 for v in values) or not sum(values) > 0:
        raise ValueError(f"'share' must hold a number >= 0 for each of {num_graphs} graphs, not all 0, got {values}")
    return [value / sum(values) for value in values]


def weighted_sum(parts: Sequence[CanonicalGraph], share: Sequence[float]) -> CanonicalGraph:
    """The sum of canonical graphs at their shares, each at the mean degree one."""
    num_nodes, stride = parts[0].num_nodes, max(parts[0].num_nodes, 1)
    keys, weights = [], []
    for part, own in zip(parts, share, strict=True):
        total = float(part.edge_weight.double().sum())
        if own > 0 and total > 0:
            keys.append(part.edge_index[0] * stride + part.edge_index[1])
            weights.append(part.edge_weight.double() * (own * num_nodes / (2 * total)))
    if not keys:
        return CanonicalGraph(parts[0].edge_index[:, :0], parts[0].edge_weight[:0], num_nodes)
    key, place = torch.unique(torch.cat(keys), return_inverse=True)
    # One addition per graph, in their order: the sum does not depend on how the edges of a graph were sorted.
    weight = torch.zeros(key.numel(), dtype=torch.float64, device=key.device)
    for at, own_weight in zip(place.split([part.numel() for part in weights]), weights, strict=True):
        weight[at] += own_weight
    weight = weight.to(parts[0].edge_weight.dtype)
    keep = weight > 0
    return CanonicalGraph(torch.stack([key // stride, key % stride])[:, keep], weight[keep], num_nodes)
