from __future__ import annotations

from torch import Tensor

from tg_crepe.energy.dirichlet import own_energy
from tg_crepe.energy.gradient import GraphGradient, dual_step
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.backends.edge_dual import EdgeDual
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.solvers.problem import Certificate, InnerProblem, certify


class ReferenceBackend(EdgeDual):
    r"""The primal–dual iteration written as its equations, on PyG's message passing; the oracle for quicker ones.

    Args:
        graph (CanonicalGraph): The graph; its dual has the shape :obj:`[num_edges, num_classes]`.
    """

    def __init__(self, graph: CanonicalGraph) -> None:
        super().__init__(graph)
        self.gradient = GraphGradient()
        # Σ K is K with other weights, ρ σ_e w_e / ρ in the place of w_e; see `dual_step`.
        self.step = dual_step(graph.edge_index, graph.local_degree)

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration, see :func:`~tg_crepe.solvers.chambolle_pock.solve_inner`."""
        u_bar = self.graph.communicator.halo(state.u_bar)
        ascent = self.gradient(u_bar, self.graph.oriented_index, self.step / rho, self.graph.local_degree)
        dual = (state.dual + ascent).clamp_(-1, 1)
        pull = rho / problem.time_step
        forward = state.u - rho * (self.divergence(dual) - problem.linear) + pull * problem.u_prev
        u = problem.constraint.project(forward / (1 + pull))
        return PrimalDualState(u, u + theta * (u - state.u), dual)

    def divergence(self, dual: Tensor) -> Tensor:
        r""":math:`K^*\mathbf{z}` in the precision of ``dual``, of shape :obj:`[num_nodes, num_classes]`."""
        weight, degree = self.graph.edge_weight.to(dual.dtype), self.graph.local_degree.to(dual.dtype)
        return self.gradient.adjoint(dual, self.graph.oriented_index, weight, degree)[: self.graph.num_nodes]

    def own_energy(self, u: Tensor) -> Tensor:
        """What this process has of the energy of every class, in double precision, of shape :obj:`[num_classes]`."""
        return own_energy(u, self.graph)

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        # In double precision: the gap is a small difference of large sums.
        return certify(problem, state.u, self.own_energy(state.u), self.divergence(state.dual.double()))
