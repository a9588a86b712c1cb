from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.energy.gradient import dual_step
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.sparse import sparse_csr
from tg_crepe.solvers.backends.edge_dual import EdgeDual
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.solvers.problem import Certificate, InnerProblem, certify
from tg_crepe.typing import OptTensor

#: Edges whose differences or flows are held at a time when sums are taken in double precision.
_EDGES_AT_A_TIME = 1 << 18


class TorchBackend(EdgeDual):
    r"""The primal–dual iteration as two products with sparse CSR matrices, for any device that torch has.

    :math:`\Sigma K` (with the divisor taken out, so it applies to :math:`\bar v = \bar u / s`) is added into the dual
    in place and :math:`T K^*` is a matrix of its own, so nothing of the size of the edges exists beside the dual. The
    edges of the inner nodes come first and do not wait for what other processes send.

    Args:
        graph (CanonicalGraph): The graph; its dual has the shape :obj:`[num_edges, num_classes]`.
        divisor (torch.Tensor, optional): The :math:`s` of the operator :math:`K = W \mathrm{diag}(s)^{-1}`, for own and
            halo nodes, of shape :obj:`[num_local]`. (default: :obj:`None`, the degree)
    """

    def __init__(self, graph: CanonicalGraph, divisor: OptTensor = None) -> None:
        super().__init__(graph)
        self.divisor = graph.local_degree if divisor is None else divisor
        self.scale = (1 / self.divisor[: graph.num_nodes]).unsqueeze(-1)
        reach = dual_step(graph.edge_index, self.divisor)
        device, num_edges = graph.edge_weight.device, graph.num_edges
        # An edge a row: + at its first node, − at its second; the columns of a row are in order, as i < j.
        rowptr, col, edge = graph.csr_pattern
        self.num_inner = int(torch.searchsorted(graph.edge_index[0].contiguous(), graph.num_inner))  # sorted by node
        ends = torch.arange(0, 2 * num_edges + 1, 2, device=device, dtype=col.dtype)
        other, value = graph.oriented_index.t().reshape(-1).to(col.dtype), torch.stack([reach, -reach], 1).view(-1)
        self.difference = [
            sparse_csr(
                ends[: last - first + 1], other[2 * first : 2 * last], value[2 * first : 2 * last],
                (last - first, graph.num_local),
            )
            for first, last in ((0, self.num_inner), (self.num_inner, num_edges))
        ]  # fmt: skip
        row = torch.repeat_interleave(torch.arange(graph.num_nodes, device=device), rowptr.diff())
        value = self.slot_sign() * graph.edge_weight.index_select(0, edge) / graph.degree[row]
        # Edges are sorted by their nodes, so their numbers ascend within a row as they must.
        self.descent = sparse_csr(rowptr, edge, value, (graph.num_nodes, num_edges))

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration; the dual is updated in place."""
        v_bar = state.u.new_empty(self.graph.num_local, state.u.size(1))
        own, around = v_bar.split([self.graph.num_nodes, self.graph.num_halo])
        halo = self.graph.communicator.exchange(torch.mul(state.u_bar, self.scale, out=own), around)
        dual = state.dual
        self.step_dual(dual[: self.num_inner], 0, v_bar, rho)
        pull = rho / problem.time_step
        forward = state.u + rho * problem.linear + pull * problem.u_prev
        halo.wait()
        self.step_dual(dual[self.num_inner :], 1, v_bar, rho)
        u = problem.constraint.project(forward.addmm_(self.descent, dual, alpha=-rho).div_(1 + pull))
        return PrimalDualState(u, torch.lerp(state.u, u, 1 + theta), dual)

    def step_dual(self, dual: Tensor, part: int, v_bar: Tensor, rho: float) -> None:
        """Adds Σ K ū to the dual of the inner edges (part 0) or of the others (1), and clips it; in place."""
        if dual.size(0):  # of no rows, a sparse product is none
            dual.addmm_(self.difference[part], v_bar, alpha=1 / rho).clamp_(-1, 1)

    def own_energy(self, u: Tensor) -> Tensor:
        """What this process has of the energy of every class, in double precision, of shape :obj:`[num_classes]`."""
        v = self.graph.communicator.halo(u).double() / self.divisor.double().unsqueeze(-1)
        total = v.new_zeros(u.size(1))
        edges = self.graph.edge_index.split(_EDGES_AT_A_TIME, dim=1)
        for (first, second), weight in zip(edges, self.graph.counted_weight.split(_EDGES_AT_A_TIME), strict=True):
            total += weight @ (v[first] - v[second]).abs_()
        return total

    def divergence(self, dual: Tensor) -> Tensor:
        r""":math:`K^*\mathbf{z}` in double precision, of shape :obj:`[num_nodes, num_classes]`."""
        total = dual.new_zeros(self.graph.num_local, dual.size(1), dtype=torch.float64)
        arrays = (*self.graph.oriented_index, self.graph.edge_weight.double(), dual)
        for first, second, weight, z in zip(*(x.split(_EDGES_AT_A_TIME) for x in arrays), strict=True):
            flow = weight.unsqueeze(-1) * z
            total.index_add_(0, first, flow).index_add_(0, second, flow, alpha=-1)
        return (total / self.divisor.double().unsqueeze(-1))[: self.graph.num_nodes]

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        divergence = (self.descent @ state.dual).double()
        return certify(problem, state.u, self.own_energy(state.u), divergence)
