from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.energy.dirichlet import own_energy
from tg_crepe.energy.gradient import GraphGradient, dual_step
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.solvers.problem import Certificate, InnerProblem, certify
from tg_crepe.typing import OptTensor


class ReferenceBackend:
    r"""The primal–dual iteration written as its equations, on PyG's message passing; the oracle for quicker ones.

    Args:
        graph (CanonicalGraph): The graph; its dual has the shape :obj:`[num_edges, num_classes]`.
    """

    def __init__(self, graph: CanonicalGraph) -> None:
        self.graph = graph
        self.gradient = GraphGradient()
        # Σ K is K with other weights, ρ σ_e w_e / ρ in the place of w_e; see `dual_step`.
        self.step = dual_step(graph.edge_index, graph.local_degree)

    def start(self, u: Tensor, dual: OptTensor = None) -> PrimalDualState:
        """The state at ``u``, with a zero dual unless one is given."""
        if dual is None:
            dual = u.new_zeros(self.graph.num_edges, u.size(1))
        return PrimalDualState(u, u, dual)

    def restart(self, state: PrimalDualState) -> PrimalDualState:
        """The same point and dual without momentum."""
        return PrimalDualState(state.u, state.u, state.dual)

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration, see :func:`~tg_crepe.solvers.chambolle_pock.solve_inner`."""
        graph = self.graph
        u_bar = graph.communicator.halo(state.u_bar)
        ascent = self.gradient(u_bar, graph.edge_index, self.step / rho, graph.local_degree)
        dual = (state.dual + ascent).clamp_(-1, 1)
        pull = rho / problem.time_step
        forward = state.u - rho * (self.divergence(dual) - problem.linear) + pull * problem.u_prev
        u = problem.constraint.project(forward / (1 + pull))
        return PrimalDualState(u, u + theta * (u - state.u), dual)

    def divergence(self, dual: Tensor) -> Tensor:
        r""":math:`K^*\mathbf{z}`, of shape :obj:`[num_nodes, num_classes]`."""
        graph = self.graph
        divergence = self.gradient.adjoint(dual, graph.edge_index, graph.edge_weight, graph.local_degree)
        return divergence[: graph.num_nodes]

    def by_slot(self, dual: Tensor) -> Tensor:
        """The dual of every directed edge, in the order of the graph's rows."""
        return dual.index_select(0, self.graph.csr_pattern[2]) * self._sign()

    def from_slots(self, dual: Tensor) -> Tensor:
        """The dual from that of every directed edge."""
        edges = dual.new_empty(self.graph.num_edges, dual.size(1))
        edges[self.graph.csr_pattern[2].long()] = dual * self._sign()
        return edges

    def _sign(self) -> Tensor:
        """Whether a directed edge leaves the first node of its edge, 1, or the second, −1."""
        rowptr, col, _ = self.graph.csr_pattern
        row = torch.repeat_interleave(torch.arange(self.graph.num_nodes, device=col.device), rowptr.diff())
        return torch.where(row < col, 1.0, -1.0).to(self.graph.edge_weight.dtype).unsqueeze(-1)

    def own_energy(self, u: Tensor) -> Tensor:
        """What this process has of the energy of every class, in double precision, of shape :obj:`[num_classes]`."""
        return own_energy(u, self.graph)

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        # In double precision: the gap is a small difference of large sums.
        dual = state.dual.double()
        graph = self.graph
        weight, degree = graph.edge_weight.double(), graph.local_degree.double()
        divergence = self.gradient.adjoint(dual, graph.edge_index, weight, degree)[: graph.num_nodes]
        return certify(problem, state.u, self.own_energy(state.u), divergence)
