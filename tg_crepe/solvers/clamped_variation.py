from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._checks import check_choice
from tg_crepe.energy.constraint import KnownValues
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.backends.choice import make_fast_backend
from tg_crepe.solvers.backends.numba import NumbaBackend
from tg_crepe.solvers.backends.torch_csr import TorchBackend
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.solvers.problem import InnerProblem
from tg_crepe.solvers.trace import Status, Trace

#: Names of the implementations of an iteration.
_BACKENDS = ("auto", "numba", "torch")

#: The balance ρ of the primal and the dual step. Values lie in [0, 1] and duals in [−1, 1] whatever the graph, so one
#: number serves; of 1, 3, 10, 30 and 100, three and ten took the fewest iterations on graphs of 150 to 70,000 nodes.
_BALANCE = 5.0

#: Iterations between two looks at the gap; a look costs about one iteration.
_CHECK_EVERY = 20


@dataclass(frozen=True)
class VariationResult:
    r"""Where the iterations ended.

    Args:
        u (torch.Tensor): The last point, of shape :obj:`[num_nodes, num_classes]`.
        trace (Trace): One row per look at the gap; see :func:`minimise_variation`.
        status (str): :obj:`"converged"` or :obj:`"step_limit"`.
    """

    u: Tensor
    trace: Trace
    status: Status


def minimise_variation(
    graph: CanonicalGraph,
    sign: Tensor,
    start: Tensor,
    tol: float,
    max_iterations: int,
    backend: str = "auto",
) -> VariationResult:
    r"""Minimises the total variation of every class with known values held, to a duality gap.

    .. math::
        \min_{u} J(u) = \sum_{e = (i, j)} w_{ij} |u_i - u_j| \quad \text{s.t. } u_i = f_i \text{ where known},

    where :math:`f_i` is 1 or 0. Every optimum can be cut off at 0 and 1, so the box :math:`0 \leq u \leq 1` changes
    nothing, and with it any :math:`\|z\|_\infty \leq 1` gives a lower bound,

    .. math::
        D(z) = \sum_{i \text{ known}} f_i (K^* z)_i + \sum_{i \text{ free}} \min(0, (K^* z)_i) \leq \min J, \qquad
        (Ku)_e = w_{ij} (u_i - u_j).

    The iteration is that of Chambolle and Pock with diagonal steps, whose product has norm at most 1 for every
    :math:`\rho`:

    .. math::
        z_e &\leftarrow \mathrm{clip}\left(z_e + \tfrac{1}{2\rho} (\bar u_i - \bar u_j), -1, 1\right) \\
        u_i^+ &\leftarrow \mathrm{clip}\left(u_i - \tfrac{\rho}{d_i} (K^* z)_i, 0, 1\right) \text{ or } f_i, \qquad
        \bar u \leftarrow 2 u^+ - u.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        sign (torch.Tensor): What is known: :obj:`1`, :obj:`-1` (the value 0) or :obj:`0` (free), of shape
            :obj:`[num_nodes, num_classes]`.
        start (torch.Tensor): Where to start, of the same shape.
        tol (float): Stop when the gap of every class is at most this times its energy.
        max_iterations (int): The limit.
        backend (str, optional): :obj:`"numba"` (the quickest, CPU), :obj:`"torch"` (any device) or :obj:`"auto"`.
            (default: :obj:`"auto"`)

    Returns:
        The point, and a trace with the columns ``step`` (iterations), ``energy`` and ``bound`` (:math:`J` and
        :math:`D` of every class) and ``gap`` (the largest relative gap of a class).
    """
    check_choice("backend", backend, _BACKENDS)
    carrier = make_fast_backend(backend, graph, torch.ones_like(graph.degree))
    known = KnownValues(sign.to(graph.edge_weight.dtype))
    zero = torch.zeros_like(known.sign)
    problem = InnerProblem(zero, zero, math.inf, known)
    state = carrier.start(known.project(start.to(zero.dtype)))
    smallest = _rounding(graph, sign) / tol
    trace = Trace()
    steps = 0
    with tqdm(total=max_iterations, desc="total variation", delay=3, disable=None, leave=False) as bar:
        while _look(carrier, state, known, trace, steps, smallest) > tol and steps < max_iterations:
            now = min(_CHECK_EVERY, max_iterations - steps)
            for _ in range(now):
                state = carrier.iterate(state, problem, _BALANCE, theta=1.0)
            steps += now
            bar.update(now)
    converged = float(trace["gap"][-1]) <= tol
    return VariationResult(state.u, trace, "converged" if converged else "step_limit")


def oscillating_variation(graph: CanonicalGraph, sign: Tensor, steps: int) -> VariationResult:
    r"""A fixed number of iterations with the steps :math:`2/d_i` and :math:`1/(2 w_e)`, from zero and without the box.

    These are the primal step of :math:`\rho = 2` and the dual step of :math:`\rho = 1`. Their product has the norm of
    the normalised Laplacian, above the bound of 1, so the iteration need not converge; it is that of the GraphLearning
    package (1.7.5).

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        sign (torch.Tensor): What is known, as in :func:`minimise_variation`.
        steps (int): The number of iterations.
    """
    carrier = TorchBackend(graph, torch.ones_like(graph.degree))
    known = KnownValues(sign.to(graph.edge_weight.dtype))
    state = carrier.start(torch.zeros_like(known.sign))
    for _ in range(steps):
        carrier.step_dual(state.dual, 0, state.u_bar, rho=1.0)
        free = torch.addmm(state.u, carrier.descent, state.dual, alpha=-2.0)
        u = torch.where(sign == 0, free, known.lower)
        state = PrimalDualState(u, torch.lerp(state.u, u, 2.0), state.dual)
    trace = Trace()
    _look(carrier, state, known, trace, steps, torch.zeros_like(_rounding(graph, sign)))
    return VariationResult(state.u, trace, "step_limit")


def _look(
    carrier: NumbaBackend | TorchBackend,
    state: PrimalDualState,
    known: KnownValues,
    trace: Trace,
    step: int,
    smallest: Tensor,
) -> float:
    """Adds a row to the trace, and returns the largest relative gap; energies below ``smallest`` count as that."""
    energy, flux = carrier.own_energy(state.u), carrier.divergence(state.dual)
    bound = torch.minimum(flux * known.lower, flux * known.upper).sum(dim=0)
    scale = torch.maximum(energy, smallest).clamp(min=torch.finfo(torch.float64).tiny)
    gap = ((energy - bound) / scale).max().clamp(min=0)
    trace.append(step=step, energy=energy, bound=bound, gap=gap)
    return float(gap)


def _rounding(graph: CanonicalGraph, sign: Tensor) -> Tensor:
    """What rounding makes of a zero energy: it is relative to the cheaper way to cut the known nodes off."""
    degree = graph.degree.double()
    cut = torch.minimum(degree @ (sign > 0).double(), degree @ (sign < 0).double())
    return 64 * torch.finfo(graph.edge_weight.dtype).eps * cut
