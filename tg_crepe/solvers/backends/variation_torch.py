from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.sparse import sparse_csr

#: Edges whose differences or flows are held at a time when sums are taken in double precision.
_EDGES_AT_A_TIME = 1 << 18


class TorchVariation:
    r"""The primal–dual iteration of the clamped total variation as two products with sparse CSR matrices, for any
    device that torch has; see :func:`~tg_crepe.solvers.clamped_variation.minimise_variation`.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        lower (torch.Tensor): The lower bounds of the values, of shape :obj:`[num_nodes, num_classes]`.
        upper (torch.Tensor): The upper bounds, of the same shape; equal to ``lower`` where a value is known.
        start (torch.Tensor): The first point, of the same shape; the dual starts at zero.
        primal_step (float): :math:`\rho`; the step of node :math:`i` is :math:`\rho / d_i`.
        dual_step (float): :math:`\sigma`; the step of edge :math:`e` is :math:`\sigma / w_e`.
    """

    def __init__(
        self,
        graph: CanonicalGraph,
        lower: Tensor,
        upper: Tensor,
        start: Tensor,
        primal_step: float,
        dual_step: float,
    ) -> None:
        self.graph = graph
        self.lower, self.upper = lower, upper
        self.primal_step, self.dual_step = primal_step, dual_step
        self.u = self.u_bar = start
        self.dual = start.new_zeros(graph.num_edges, start.size(1))
        rowptr, col, edge = graph.csr_pattern
        device, num_edges = col.device, graph.num_edges
        # An edge a row: + at its first node, − at its second; the columns of a row are in order, as i < j.
        ends = torch.arange(0, 2 * num_edges + 1, 2, device=device, dtype=col.dtype)
        signs = torch.tensor([1.0, -1.0], dtype=start.dtype, device=device).repeat(num_edges)
        both = graph.edge_index.t().reshape(-1).to(col.dtype)
        self.difference = sparse_csr(ends, both, signs, (num_edges, graph.num_nodes))
        row = torch.repeat_interleave(torch.arange(graph.num_nodes, device=device), rowptr.diff())
        value = graph.edge_weight.index_select(0, edge) / graph.degree[row]
        value = torch.where(row < col, value, -value)
        # Edges are sorted by their nodes, so their numbers ascend within a row as they must.
        self.divergence = sparse_csr(rowptr, edge, value, (graph.num_nodes, num_edges))

    def iterate(self) -> None:
        """One iteration; the dual is updated in place."""
        self.dual.addmm_(self.difference, self.u_bar, alpha=self.dual_step).clamp_(-1, 1)
        u = torch.addmm(self.u, self.divergence, self.dual, alpha=-self.primal_step).clamp_(self.lower, self.upper)
        self.u_bar = torch.lerp(self.u, u, 2.0)
        self.u = u

    def values(self) -> tuple[Tensor, Tensor]:
        """The energy and its lower bound for every class, in double precision, of shape :obj:`[num_classes]`."""
        u = self.u.double()
        energy = u.new_zeros(u.size(1))
        flux = torch.zeros_like(u)  # K*z
        slices = (
            array.split(_EDGES_AT_A_TIME) for array in (*self.graph.edge_index, self.graph.edge_weight, self.dual)
        )
        for first, second, weight, dual in zip(*slices, strict=True):
            w = weight.double()
            energy += w @ (u[first] - u[second]).abs_()
            flow = w.unsqueeze(-1) * dual
            flux.index_add_(0, first, flow).index_add_(0, second, flow, alpha=-1)
        # The values of the optimum lie between 0 and 1, whatever the steps are clamped to.
        least = torch.minimum(flux * self.lower.clamp(min=0), flux * self.upper.clamp(max=1))
        return energy, least.sum(dim=0)
