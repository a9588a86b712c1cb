from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe.energy.constraint import Constraint, Coupling, LabelCoupling
from tg_crepe.energy.dirichlet import ratio
from tg_crepe.energy.normaliser import Normaliser, along_degree, get_normaliser
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.communicator import Communicator
from tg_crepe.graph.keeper import KeptFlow
from tg_crepe.graph.reductions import absolute_sum, norm, squared_distance, weighted_sum
from tg_crepe.solvers.backends import BACKENDS, make_backend
from tg_crepe.solvers.chambolle_pock import Backend, solve_inner
from tg_crepe.solvers.problem import Certificate, InnerProblem
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import OptTensor

#: A step that finds no descent although its gap is this small (relative to the energy) has found the end of the flow.
_END_GAP = 1e-6

#: The ratio stands still when its weighted change over a step is below this share of the energy.
_STILL = 1e-3


@dataclass
class FlowResult:
    """Where the flow ended.

    Args:
        u (torch.Tensor): The last iterate, of unit norm, of shape :obj:`[num_nodes, num_classes]`.
        dual (torch.Tensor): The last dual, for a warm start on the same graph.
        trace (Trace): One row a step; row 0 is the start.
        status (str): :obj:`"converged"`, :obj:`"step_limit"` or :obj:`"stalled"`.
    """

    u: Tensor
    dual: Tensor
    trace: Trace
    status: Status


@dataclass
class _Point:
    """All that the next step needs of an iterate: sums in double precision, the linear term in its own type.

    Besides the energy J, the norm H, the ratio R and the linear term, the distance to the iterate before, ⟨d, u⟩ and
    ‖u‖₁.
    """

    energy: Tensor
    norm: Tensor
    ratio: Tensor
    linear: Tensor
    change: float
    along_degree: Tensor
    absolute: float


class _Standing:
    """Counts the steps since a label last changed or the ratio last moved."""

    def __init__(self, u: Tensor, exclusive: bool, over: Communicator) -> None:
        self._exclusive = exclusive
        self._over = over
        self._label = self._labels(u)
        self.count = 0

    def steps(self, u: Tensor, ratio_stands: bool) -> int:
        """The count after a step to ``u``."""
        label = self._labels(u)
        changed = self._over.max((label != self._label).any().long())
        self.count = self.count + 1 if ratio_stands and not bool(changed) else 0
        self._label = label
        return self.count

    def _labels(self, u: Tensor) -> Tensor:
        return u.argmax(dim=1) if self._exclusive else u > 0


class RatioFlow:
    r"""The constrained multi-class ratio flow (eq. `pde2`; with one class and no constraint, eq. `pde`).

    .. math::
        \mathbf{u}_{k+1/2} = \arg\min_{\mathbf{u}} \frac{1}{2\delta t} \|\mathbf{u} - \mathbf{u}_k\|^2
        - \sum_l R(u_k^l) \langle q_k^l - \tilde q_k^l, u^l \rangle + \sum_l J(u^l) + \chi_C(\mathbf{u}), \qquad
        \mathbf{u}_{k+1} = \frac{\mathbf{u}_{k+1/2}}{\|\mathbf{u}_{k+1/2}\|_2},

    where :math:`J(u) = \|W D^{-1} u\|_1`, :math:`R = J/H`, :math:`q_k^l \in \partial H(u_k^l)` and :math:`\tilde q` is
    the part of :math:`q` along the degree. A step is accepted when it does not raise the objective above its value at
    :math:`\mathbf{u}_k` (projected on :math:`C`), which is all that the descent in Propositions 2.3 and 4.3 needs;
    otherwise it is solved more tightly.

    .. code-block:: python

        from tg_crepe import RatioFlow
        from tg_crepe.energy import Coupling

        result = RatioFlow(normaliser="degree_median", time_step=0.1)(u, graph, Coupling())

    Args:
        normaliser (str or Normaliser, optional): :math:`H`. (default: :obj:`"degree_median"`)
        time_step (float or sequence of float, optional): :math:`\delta t`; a sequence is a clock, a step each.
            (default: :obj:`1.0`)
        eps (float, optional): The margin :math:`\epsilon` at labelled nodes. (default: :obj:`1.0`)
        relative (bool, optional): Whether ``time_step`` and ``eps`` are in units of the mean of
            :math:`|\mathbf{u}_k|`, taken anew at every step. (default: :obj:`True`)
        max_steps (int, optional): The largest number of steps of a constant ``time_step``. (default: :obj:`100`)
        tol (float, optional): Stop when :math:`\|\mathbf{u}_{k+1} - \mathbf{u}_k\|` is at most this, or the weighted
            ratio change of Proposition 4.3 relative to :math:`\sum_l J` is at most its square; a clock runs to its
            end. (default: :obj:`1e-4`)
        patience (int, optional): Stop as well when for this many steps no node has changed its label (the class of the
            largest :math:`u^l`, or the sign of each where classes are not coupled) and the weighted ratio change has
            stayed below a thousandth of :math:`\sum_l J`; not with a clock. (default: :obj:`None`, never)
        inner_iterations (int, optional): Primal–dual iterations before a step is first tested. (default: :obj:`20`)
        max_inner_iterations (int, optional): Their limit. (default: :obj:`2000`)
        gap_tol (float, optional): Solve every step to this duality gap, relative to :math:`\sum_l J(u_k^l)`.
            (default: :obj:`None`, a step ends as soon as it is accepted)
        backend (str, optional): What carries out the iterations: :obj:`"numba"`, :obj:`"torch"`,
            :obj:`"reference"` or :obj:`"auto"`. (default: :obj:`"auto"`)
    """

    def __init__(
        self,
        normaliser: str | Normaliser = "degree_median",
        time_step: float | Sequence[float] = 1.0,
        eps: float = 1.0,
        relative: bool = True,
        max_steps: int = 100,
        tol: float = 1e-4,
        patience: int | None = None,
        inner_iterations: int = 20,
        max_inner_iterations: int = 2000,
        gap_tol: float | None = None,
        backend: str = "auto",
    ) -> None:
        clock = [time_step] if isinstance(time_step, (int, float)) else list(time_step)
        for value in clock:
            check_positive("time_step", value)
        check_positive("eps", eps)
        check_count("max_steps", max_steps, low=0)
        check_positive("tol", tol)
        if patience is not None:
            check_count("patience", patience)
        check_count("inner_iterations", inner_iterations)
        check_count("max_inner_iterations", max_inner_iterations, low=inner_iterations)
        if gap_tol is not None:
            check_positive("gap_tol", gap_tol)
        check_choice("backend", backend, BACKENDS)
        self.normaliser = get_normaliser(normaliser) if isinstance(normaliser, str) else normaliser
        self.time_step = time_step
        self.eps = eps
        self.relative = relative
        self.max_steps = max_steps
        self.tol = tol
        self.patience = patience
        self.inner_iterations = inner_iterations
        self.max_inner_iterations = max_inner_iterations
        self.gap_tol = gap_tol
        self.backend = backend

    @torch.no_grad()
    def __call__(
        self,
        u: Tensor,
        graph: CanonicalGraph,
        constraint: Constraint | None = None,
        dual: OptTensor = None,
    ) -> FlowResult:
        r"""Runs the flow.

        Args:
            u (torch.Tensor): The start, not zero, of shape :obj:`[num_nodes, num_classes]`; it is scaled to unit norm.
            graph (CanonicalGraph): A graph without isolated nodes.
            constraint (Constraint, optional): The set :math:`C`; its margin is replaced by ``eps``.
                (default: :obj:`None`, no constraint)
            dual (torch.Tensor, optional): The dual to start with, of an earlier result. (default: :obj:`None`, zero)
        """
        constraint = constraint or Constraint()
        over = graph.communicator
        kept = over.keeper.resume(graph)
        if kept is not None and kept.status is not None:
            ended = cast(Status, kept.status)
            return FlowResult(kept.u, kept.u.new_zeros(0), Trace.from_dict(kept.trace), ended)
        backend = make_backend(self.backend, graph)
        clock = self._clock()
        trace = Trace()
        if kept is None:
            u = u / norm(u, over).to(u.dtype)
            dual = None if dual is None else dual.clone()  # backends work in place
            point = self._evaluate(u, u, over.sum(backend.own_energy(u)), graph)
            self._record(trace, 0, u, norm(u, over), point, graph, constraint, math.nan, 0)
        else:
            u, dual, trace = kept.u, _given(kept.dual, backend), Trace.from_dict(kept.trace)
            point = self._evaluate(u, u, kept.energy, graph)
        status: Status = "converged" if self._has_clock else "step_limit"
        exclusive = isinstance(constraint, (Coupling, LabelCoupling))
        standing = None if self.patience is None or self._has_clock else _Standing(u, exclusive, over)
        if standing is not None and kept is not None:
            standing.count = kept.still
        bar = tqdm(clock, desc="ratio flow", delay=3, disable=None if over.rank == 0 else True, leave=False)
        for step, raw_step in enumerate(bar, start=1):
            if kept is not None and step <= kept.step:
                continue
            scale = point.absolute / (graph.total_nodes * u.size(1)) if self.relative else 1.0
            here = constraint.at(self.eps * scale)
            if self._has_vanished(point, u) and float(_largest(here, u, over)[1]) == 0:
                status = "converged"
                break
            problem = InnerProblem(u, point.linear, raw_step * scale, here, over)
            u_half, dual, certificate, iterations, accepted = self._step(problem, backend, dual, point)
            gap = float(certificate.gap)
            if not accepted:
                # No better point within the gap: the last one is where the flow ends, as far as the solve can tell.
                status = "converged" if gap <= _END_GAP * float(point.energy.sum()) else "stalled"
                break
            size = norm(u_half, over)
            u_next = u_half / size.to(u.dtype)
            following = self._evaluate(u_next, u, certificate.energy / size, graph)  # J is one-homogeneous
            decrease = float((following.norm * (point.ratio - following.ratio)).sum())
            self._record(trace, step, u_half, size, following, graph, here, gap, iterations)
            total = float(point.energy.sum())
            moved = abs(decrease) / total if total > 0 else 0.0  # with label priors the ratio may rise as well
            u, point = u_next, following
            still = standing is not None and standing.steps(u, moved <= _STILL) >= (self.patience or 1)
            if over.keeper.wanted:
                count = 0 if standing is None else standing.count
                slots = backend.by_slot(dual)
                over.keeper.keep(graph, KeptFlow(step, u, slots, point.energy, count, None, trace.to_dict()))
            if self._has_clock:
                continue
            if still or point.change <= self.tol or moved <= self.tol**2:
                status = "converged"
                break
        if over.keeper.wanted:
            over.keeper.keep(graph, KeptFlow(len(trace), u, None, point.energy, 0, status, trace.to_dict()))
        return FlowResult(u, dual if dual is not None else backend.start(u).dual, trace, status)

    @property
    def _has_clock(self) -> bool:
        return not isinstance(self.time_step, (int, float))

    def _clock(self) -> list[float]:
        if isinstance(self.time_step, (int, float)):
            return [float(self.time_step)] * self.max_steps
        return [float(value) for value in self.time_step]

    def _has_vanished(self, point: _Point, u: Tensor) -> bool:
        """Whether the energy is zero up to rounding (J ≤ ‖u‖₁ always): separated components, nothing left to do."""
        return float(point.energy.sum()) <= 64 * torch.finfo(u.dtype).eps * point.absolute

    def _evaluate(self, u: Tensor, u_prev: Tensor, energy: Tensor, graph: CanonicalGraph) -> _Point:
        """H, R and the linear term R (q − q̃) at a point of known J, and what else is summed over the nodes."""
        over = graph.communicator
        norm, q = self.normaliser(u, graph.degree, over)
        value = ratio(energy, norm, precision=64 * torch.finfo(u.dtype).eps)
        linear = q.sub_(along_degree(q, graph.degree, over)).mul_(value.to(q.dtype))  # q is no one else's
        distance, along, absolute = over.sums(
            squared_distance(u, u_prev), weighted_sum(graph.degree, u), absolute_sum(u)
        )
        return _Point(energy, norm, value, linear, float(distance.sqrt()), along, float(absolute))

    def _step(
        self, problem: InnerProblem, backend: Backend, dual: OptTensor, point: _Point
    ) -> tuple[Tensor, Tensor, Certificate, int, bool]:
        """Solves one inner problem and says whether its answer may be taken."""
        before = problem.constraint.project(problem.u_prev)
        energy = float(point.energy.sum())
        # Rounding of the sums that P is made of; without it a converged flow would be refused.
        noise = 16 * torch.finfo(problem.u_prev.dtype).eps * energy
        distance, push, energies = problem.communicator.sums(*problem.own_terms(before), backend.own_energy(before))
        accept_below = float(problem.smooth_part(distance, push) + energies.sum()) + noise
        gap_tol = math.inf if self.gap_tol is None else max(self.gap_tol * energy, noise)
        state, certificate, iterations = solve_inner(
            problem,
            backend,
            backend.start(before, dual),
            accept_below,
            gap_tol,
            self.inner_iterations,
            self.max_inner_iterations,
        )
        accepted = float(certificate.primal) <= accept_below
        return state.u, state.dual, certificate, iterations, accepted

    def _record(
        self,
        trace: Trace,
        step: int,
        u_half: Tensor,
        half_norm: Tensor,
        point: _Point,
        graph: CanonicalGraph,
        constraint: Constraint,
        gap: float,
        iterations: int,
    ) -> None:
        """One row of the trace."""
        coupling, margin = _largest(constraint, u_half, graph.communicator)
        trace.append(
            step=step,
            energy=point.energy,
            norm=point.norm,
            ratio=point.ratio,
            sum_of_ratios=point.ratio.sum(),
            change=point.change,
            gap=gap,
            inner_iterations=iterations,
            half_norm=half_norm,
            degree_violation=point.along_degree.abs().max(),
            coupling_violation=coupling,
            margin_violation=margin,
        )


def _largest(constraint: Constraint, u: Tensor, over: Communicator) -> Tensor:
    """The largest violation of coupling and of margins on any process, of which one may have no node."""
    if not u.numel():
        return over.max(u.new_zeros(2))
    return over.max(torch.stack([constraint.coupling_violation(u), constraint.margin_violation(u)]))


def _given(dual: OptTensor, backend: Backend) -> OptTensor:
    """The dual of a state that was kept."""
    return None if dual is None else backend.from_slots(dual)
