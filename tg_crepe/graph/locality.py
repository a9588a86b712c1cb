from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph

#: Below this many edges everything fits the cache and an order does not pay.
_WORTHWHILE = 100_000


def local_order(graph: CanonicalGraph) -> Tensor | None:
    """An order of the nodes in which neighbours lie near each other in memory (reverse Cuthill–McKee).

    A pass over the edges reads the values of the neighbours; near each other they are in the cache. In a part of a
    graph the nodes with edges to the halo come last: the others need not wait for it.

    Returns:
        torch.Tensor or None: The nodes in their new order, of shape :obj:`[num_nodes]`; :obj:`None` where it would not
        pay (a small graph, or one that is not on the CPU).
    """
    order = _cuthill_mckee(graph)
    if graph.communicator.world_size == 1:
        return order
    boundary = graph.boundary if order is None else graph.boundary[order]
    inner_first = torch.argsort(boundary.to(torch.uint8), stable=True)
    return inner_first if order is None else order[inner_first]


def _cuthill_mckee(graph: CanonicalGraph) -> Tensor | None:
    if graph.edge_weight.device.type != "cpu" or graph.num_edges < _WORTHWHILE:
        return None
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return torch.from_numpy(reverse_cuthill_mckee(graph.scipy_pattern(), symmetric_mode=True).astype("int64"))
