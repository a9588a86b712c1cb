from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.energy.dirichlet import total_variation
from tg_crepe.energy.gradient import GraphGradient, dual_step, inverse_degree
from tg_crepe.flow.chambolle_pock import PrimalDualState
from tg_crepe.flow.problem import Certificate, InnerProblem, certify
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.typing import OptTensor


class ReferenceBackend:
    r"""The primal–dual iteration written as its equations, on PyG's message passing; the oracle for quicker ones.

    Args:
        graph (CanonicalGraph): The graph; its dual has the shape :obj:`[num_edges, num_classes]`.
    """

    def __init__(self, graph: CanonicalGraph) -> None:
        self.graph = graph
        self.gradient = GraphGradient()
        # Σ K ū = step · (ū_i/d_i − ū_j/d_j): the weight cancels, see `dual_step`.
        self.step = dual_step(graph.edge_index, graph.degree).unsqueeze(-1)

    def start(self, u: Tensor, dual: OptTensor = None) -> PrimalDualState:
        """The state at ``u``, with a zero dual unless one is given."""
        if dual is None:
            dual = u.new_zeros(self.graph.num_edges, u.size(1))
        return PrimalDualState(u, u, dual)

    def restart(self, state: PrimalDualState) -> PrimalDualState:
        """The same point and dual without momentum."""
        return PrimalDualState(state.u, state.u, state.dual)

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration, see :func:`~tg_crepe.flow.chambolle_pock.solve_inner`."""
        v_bar = state.u_bar * inverse_degree(self.graph.degree).unsqueeze(-1)
        first, second = self.graph.edge_index
        dual = (state.dual + self.step / rho * (v_bar[first] - v_bar[second])).clamp_(-1, 1)
        pull = rho / problem.time_step
        forward = state.u - rho * (self.divergence(dual) - problem.linear) + pull * problem.u_prev
        u = problem.constraint.project(forward / (1 + pull))
        return PrimalDualState(u, u + theta * (u - state.u), dual)

    def divergence(self, dual: Tensor) -> Tensor:
        r""":math:`K^*\mathbf{z}`, of shape :obj:`[num_nodes, num_classes]`."""
        return self.gradient.adjoint(dual, self.graph.edge_index, self.graph.edge_weight, self.graph.degree)

    def energy(self, u: Tensor) -> Tensor:
        """The energy of every class, in double precision, of shape :obj:`[num_classes]`."""
        return total_variation(u, self.graph)

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        # In double precision: the gap is a small difference of large sums.
        dual = state.dual.double()
        graph = self.graph
        divergence = self.gradient.adjoint(dual, graph.edge_index, graph.edge_weight.double(), graph.degree.double())
        return certify(problem, state.u, self.energy(state.u), divergence.to(torch.float64))
