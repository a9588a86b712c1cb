from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from tg_crepe.solvers.problem import Certificate, InnerProblem

#: Iterations between two looks at the gap; a look costs about one iteration.
_CHECK_EVERY = 10

#: Restart when the gap has not halved over this many iterations since the last restart.
_RESTART_EVERY = 50


@dataclass
class PrimalDualState:
    r"""The iterates of the primal–dual method.

    Args:
        u (torch.Tensor): The primal point, always in :math:`C` after an iteration, of shape
            :obj:`[num_nodes, num_classes]`.
        u_bar (torch.Tensor): Its extrapolation, of the same shape, in the form that the backend keeps.
        dual (torch.Tensor): :math:`\|\mathbf{z}\|_\infty \leq 1`, one value per edge and class, in the layout of the
            backend that made it.
        spare (tuple, optional): Memory that the backend may write the next iterate to. (default: :obj:`None`)
    """

    u: Tensor
    u_bar: Tensor
    dual: Tensor
    spare: tuple[Tensor, Tensor] | None = None


class Backend(Protocol):
    """The seam behind which an implementation may fuse whatever it likes."""

    def start(self, u: Tensor, dual: Tensor | None = None) -> PrimalDualState:
        """The state at ``u``, with a zero dual unless one of an earlier state is given, which it may overwrite."""
        ...

    def restart(self, state: PrimalDualState) -> PrimalDualState:
        """The same point and dual without momentum."""
        ...

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration with primal step ``rho`` and extrapolation ``theta``; it may overwrite the given state."""
        ...

    def by_slot(self, dual: Tensor) -> Tensor:
        """The dual of every directed edge, in the order of the graph's rows, whatever the layout of the backend."""
        ...

    def from_slots(self, dual: Tensor) -> Tensor:
        """The dual in the layout of the backend, from that of every directed edge."""
        ...

    def own_energy(self, u: Tensor) -> Tensor:
        """What this process has of the energy J of every class, in double precision, of shape :obj:`[num_classes]`."""
        ...

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        ...


def solve_inner(
    problem: InnerProblem,
    backend: Backend,
    state: PrimalDualState,
    accept_below: float,
    gap_tol: float,
    min_iterations: int,
    max_iterations: int,
) -> tuple[PrimalDualState, Certificate, int]:
    r"""Preconditioned, accelerated primal–dual iterations (Chambolle and Pock) on one inner problem.

    .. math::
        \mathbf{z} &\leftarrow \mathrm{clip}(\mathbf{z} + \Sigma K \bar{\mathbf{u}}, -1, 1) \\
        \mathbf{u}^+ &\leftarrow \mathrm{proj}_C\left(\frac{\mathbf{u} - \rho (K^*\mathbf{z} - \mathbf{c})
        + (\rho / \delta t)\, \mathbf{u}_k}{1 + \rho / \delta t}\right) \\
        \bar{\mathbf{u}} &\leftarrow \mathbf{u}^+ + \theta (\mathbf{u}^+ - \mathbf{u}), \qquad
        \theta = \frac{1}{\sqrt{1 + 2\rho / \delta t}}, \qquad \rho \leftarrow \theta \rho,

    where :math:`\Sigma_e = 1 / (\rho\, w_e (1/d_i + 1/d_j))` and :math:`\rho` starts at :math:`\delta t`. The steps
    satisfy :math:`\|\Sigma^{1/2} K T^{1/2}\| \leq 1` for every :math:`\rho`, as every column of :math:`|K|` sums to 1.
    When the gap stalls, :math:`\rho` and :math:`\bar{\mathbf{u}}` start anew and :math:`\mathbf{z}` stays.

    Args:
        problem (InnerProblem): The problem.
        backend (Backend): What carries out an iteration.
        state (PrimalDualState): Where to start.
        accept_below (float): The value of :math:`P` that is good enough (that of the point of the last outer step).
        gap_tol (float): The gap at which to stop; with :obj:`math.inf` the first acceptable point ends the loop.
        min_iterations (int): Iterations before the first test.
        max_iterations (int): The limit.

    Returns:
        The last state, its certificate and the number of iterations.
    """
    rho, theta = problem.time_step, 1.0
    iterations, since_restart, gap_then = 0, 0, math.inf
    while True:
        target = min_iterations if iterations == 0 else min(iterations + _CHECK_EVERY, max_iterations)
        while iterations < target:
            theta = 1 / math.sqrt(1 + 2 * rho / problem.time_step)
            state = backend.iterate(state, problem, rho, theta)
            rho *= theta
            iterations += 1
            since_restart += 1
        certificate = backend.certificate(state, problem)
        gap = float(certificate.gap)
        good_enough = float(certificate.primal) <= accept_below if math.isinf(gap_tol) else gap <= gap_tol
        if good_enough or iterations >= max_iterations:
            return state, certificate, iterations
        if since_restart >= _RESTART_EVERY:
            if gap > 0.5 * gap_then:
                rho = problem.time_step
                state = backend.restart(state)
            since_restart, gap_then = 0, gap
