from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.typing import OptTensor


class EdgeDual:
    r"""What backends share that keep :math:`\mathbf{z}` once per undirected edge, of shape
    :obj:`[num_edges, num_classes]`, and :math:`\bar{\mathbf{u}}` as it is.

    Args:
        graph (CanonicalGraph): The graph.
    """

    def __init__(self, graph: CanonicalGraph) -> None:
        self.graph = graph

    def start(self, u: Tensor, dual: OptTensor = None) -> PrimalDualState:
        """The state at ``u``, with a zero dual unless one of an earlier state is given, which it takes over."""
        if dual is None:
            dual = u.new_zeros(self.graph.num_edges, u.size(1))
        return PrimalDualState(u, u, dual)

    def restart(self, state: PrimalDualState) -> PrimalDualState:
        """The same point and dual without momentum."""
        return PrimalDualState(state.u, state.u, state.dual)

    def by_slot(self, dual: Tensor) -> Tensor:
        """The dual of every directed edge, in the order of the graph's rows."""
        return dual.index_select(0, self.graph.csr_pattern[2]) * self.slot_sign().unsqueeze(-1)

    def from_slots(self, dual: Tensor) -> Tensor:
        """The dual from that of every directed edge."""
        edges = dual.new_empty(self.graph.num_edges, dual.size(1))
        edges[self.graph.csr_pattern[2].long()] = dual * self.slot_sign().unsqueeze(-1)
        return edges

    def slot_sign(self) -> Tensor:
        """Whether a directed edge leaves the first node of its edge, 1, or the second, −1."""
        rowptr, _, edge = self.graph.csr_pattern
        row = torch.repeat_interleave(torch.arange(self.graph.num_nodes, device=edge.device), rowptr.diff())
        first = self.graph.oriented_index[0].index_select(0, edge)
        return torch.where(row == first, 1.0, -1.0).to(self.graph.edge_weight.dtype)
