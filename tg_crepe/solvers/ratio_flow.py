from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe._memory import give_back
from tg_crepe.energy.constraint import Constraint
from tg_crepe.energy.dirichlet import ratio
from tg_crepe.energy.normaliser import Normaliser, along_degree, get_normaliser
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import absolute_sum, norm, squared_distance, weighted_sum
from tg_crepe.solvers.backends import BACKENDS, make_backend
from tg_crepe.solvers.chambolle_pock import Backend, solve_inner
from tg_crepe.solvers.observers import (
    FlowCheckpoint,
    FlowObserver,
    FlowState,
    ProgressBar,
    TraceRecorder,
    largest_violation,
)
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
        trace (Trace): One row per step; row 0 is the start.
        status (str): :obj:`"converged"`, :obj:`"step_limit"` or :obj:`"stalled"`.
    """

    u: Tensor
    dual: Tensor
    trace: Trace
    status: Status


class RatioFlow:
    r"""The constrained multi-class ratio flow (eq. `pde2`; with one class and no constraint, eq. `pde`).

    .. math::
        \mathbf{u}_{k+1/2} = \arg\min_{\mathbf{u}} \frac{1}{2\delta t} \|\mathbf{u} - \mathbf{u}_k\|^2
        - \sum_l R(u_k^l) \langle q_k^l - \tilde q_k^l, u^l \rangle + \sum_l J(u^l) + \chi_C(\mathbf{u}), \qquad
        \mathbf{u}_{k+1} = \frac{\mathbf{u}_{k+1/2}}{\|\mathbf{u}_{k+1/2}\|_2},

    where :math:`J(u) = \|W D^{-1} u\|_1`, :math:`R = J/H`, :math:`q_k^l \in \partial H(u_k^l)` and :math:`\tilde q` is
    the part of :math:`q` along the degree. A step is accepted when it does not raise the objective above its value at
    :math:`\mathbf{u}_k` (projected on :math:`C`), which is all that the descent in point 3 of Propositions 2 and 4
    needs; otherwise it is solved more tightly.

    .. code-block:: python

        from tg_crepe import RatioFlow
        from tg_crepe.energy import Coupling

        result = RatioFlow(normaliser="degree_median", time_step=0.1)(u, graph, Coupling())

    Args:
        normaliser (str or Normaliser, optional): :math:`H`. (default: :obj:`"degree_median"`)
        time_step (float or sequence of float, optional): :math:`\delta t`; a sequence is a schedule, run to its end.
            (default: :obj:`1.0`)
        eps (float, optional): The margin :math:`\epsilon` at labelled nodes. (default: :obj:`1.0`)
        relative (bool, optional): Whether ``time_step`` and ``eps`` are in units of the mean of
            :math:`|\mathbf{u}_k|`, taken anew at every step. (default: :obj:`True`)
        max_steps (int, optional): The largest number of steps of a constant ``time_step``. (default: :obj:`100`)
        tol (float, optional): Stop when :math:`\|\mathbf{u}_{k+1} - \mathbf{u}_k\|` is at most this, or the weighted
            ratio change of Proposition 4 relative to :math:`\sum_l J` is at most its square; a schedule runs to
            its end. (default: :obj:`1e-4`)
        patience (int, optional): Stop as well when for this many steps no node has changed its label (the class of the
            largest :math:`u^l`, or the sign of each where classes are not coupled) and the weighted ratio change has
            stayed below a thousandth of :math:`\sum_l J`; not with a schedule. (default: :obj:`None`, never)
        inner_iterations (int, optional): Primal–dual iterations before a step is first tested. (default: :obj:`20`)
        max_inner_iterations (int, optional): Their limit. (default: :obj:`2000`)
        gap_tol (float, optional): Solve every step to this duality gap, relative to :math:`\sum_l J(u_k^l)`.
            (default: :obj:`None`, a step ends as soon as it is accepted)
        backend (str, optional): What carries out the iterations: :obj:`"numba"`, :obj:`"torch"`,
            :obj:`"reference"` or :obj:`"auto"`. (default: :obj:`"auto"`)
        short_dual (bool, optional): Whether the dual may be kept in 16 bits
            (:class:`~tg_crepe.solvers.backends.numba.NumbaBackend`): enough for steps that end as soon as they are
            accepted, not for small gaps. Where no step is, it goes on in full. (default: :obj:`False`)
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
        short_dual: bool = False,
    ) -> None:
        self._has_schedule = not isinstance(time_step, (int, float))
        steps = [time_step] if isinstance(time_step, (int, float)) else list(time_step)
        if not steps:
            raise ValueError("'time_step' must be a number or hold at least one step, got an empty sequence")
        for value in steps:
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
        #: The steps that the flow takes at most.
        self._schedule = [float(value) for value in (steps if self._has_schedule else steps * max_steps)]
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
        self.short_dual = short_dual

    @torch.no_grad()
    def __call__(
        self,
        u: Tensor,
        graph: CanonicalGraph,
        constraint: Constraint | None = None,
        dual: OptTensor = None,
        observers: Sequence[FlowObserver] = (),
        resume: FlowCheckpoint | None = None,
        push: OptTensor = None,
    ) -> FlowResult:
        r"""Runs the flow: advance, observe, stop.

        Args:
            u (torch.Tensor): The start, not zero, of shape :obj:`[num_nodes, num_classes]`; it is scaled to unit norm.
            graph (CanonicalGraph): A graph without isolated nodes.
            constraint (Constraint, optional): The set :math:`C`; its margin is replaced by ``eps``.
                (default: :obj:`None`, no constraint)
            dual (torch.Tensor, optional): The dual to start with, of an earlier result with the same backend.
                (default: :obj:`None`, zero)
            observers (sequence, optional): What looks on, beside the trace and the progress bar. (default: nobody)
            resume (FlowCheckpoint, optional): Where an earlier run of the same flow was. (default: :obj:`None`)
            push (torch.Tensor, optional): What draws nodes to classes beside the ratio, such as evidence: :math:`b`
                with :math:`\sum_l b^l = 0` and :math:`\langle b^l, d \rangle = 0`, of the shape of ``u``. The linear
                term of a step is :math:`R(u_k^l) (q_k^l - \tilde q_k^l) + \bar R\, b^l`, with :math:`\bar R` the mean
                ratio of the classes, so that its unit is that of the balance. (default: :obj:`None`, nothing)
        """
        if resume is not None and resume.status is not None:
            return FlowResult(resume.u, resume.u.new_zeros(0), Trace.from_dict(resume.trace), resume.status)
        constraint = constraint or Constraint()
        if resume is None:
            state = self._begin(u, dual, graph, constraint, push)
        else:
            state = self._resume(resume, graph, constraint, push)
        watching = [TraceRecorder(), ProgressBar(len(self._schedule)), *observers]
        for observer in watching:
            observer.on_begin(state)
        while state.status is None:
            state = self._advance(state, constraint, push)
            if state.status is None:
                for observer in watching:
                    observer.on_step(state)
                state.status = self._stop_status(state)
        for observer in watching:
            observer.on_end(state)
        dual = state.backend.start(state.u).dual if state.dual is None else state.dual
        return FlowResult(state.u, dual, state.trace, state.status)

    def _begin(
        self, u: Tensor, dual: OptTensor, graph: CanonicalGraph, constraint: Constraint, push: OptTensor
    ) -> FlowState:
        """The state at a start of unit norm."""
        communicator, backend = graph.communicator, make_backend(self.backend, graph, self.short_dual)
        u = u / norm(u, communicator).to(u.dtype)
        dual = None if dual is None else dual.clone()  # backends work in place
        energy = communicator.sum(backend.own_energy(u))
        state = self._evaluate(graph, backend, u, u, energy, constraint, push)
        here = constraint.at(self.eps * self._unit(state))
        violation = largest_violation(here, u, communicator)
        return replace(state, dual=dual, constraint=here, violation=violation, status=self._end_status(0))

    def _resume(
        self, kept: FlowCheckpoint, graph: CanonicalGraph, constraint: Constraint, push: OptTensor
    ) -> FlowState:
        """The state that a checkpoint was made of."""
        backend = make_backend(self.backend, graph, self.short_dual)
        state = self._evaluate(graph, backend, kept.u, kept.u, kept.energy, constraint, push)
        dual = None if kept.dual is None else backend.from_slots(kept.dual)
        return replace(
            state,
            step=kept.step,
            progress=self._progress(kept.step),
            dual=dual,
            still=kept.still,
            trace=Trace.from_dict(kept.trace),
            status=self._end_status(kept.step),
        )

    def _end_status(self, step: int) -> Status | None:
        """How the flow ends where no steps are left to take."""
        if step < len(self._schedule):
            return None
        return "converged" if self._has_schedule else "step_limit"

    def _progress(self, step: int) -> float:
        """The share of the schedule that is done after a number of steps."""
        return sum(self._schedule[:step]) / sum(self._schedule) if self._has_schedule else math.nan

    def _unit(self, state: FlowState) -> float:
        """What ``time_step`` and ``eps`` are multiplied by."""
        return state.absolute / (state.graph.total_nodes * state.u.size(1)) if self.relative else 1.0

    def _advance(self, state: FlowState, constraint: Constraint, push: OptTensor) -> FlowState:
        """The state after one outer step, or the same one with the status that ends the flow."""
        graph, communicator, u, scale = state.graph, state.graph.communicator, state.u, self._unit(state)
        here = constraint.at(self.eps * scale)
        give_back(u.nbytes)
        if self._has_vanished(state) and float(largest_violation(here, u, communicator)[1]) == 0:
            return replace(state, status="converged")
        problem = InnerProblem(u, state.linear, self._schedule[state.step] * scale, here, communicator)
        u_half, dual, certificate, iterations, accepted = self._solve_step(problem, state)
        give_back(u.nbytes)
        if not accepted and getattr(state.backend, "short", False):
            # Steps so long that an iteration moves the dual by less than its unit: from here on in full precision.
            short, backend = state.backend, make_backend(self.backend, graph)
            state = replace(state, backend=backend, dual=backend.from_slots(short.by_slot(dual)))
            u_half, dual, certificate, more, accepted = self._solve_step(problem, state)
            iterations += more
        gap = float(certificate.gap)
        if not accepted:
            # No better point within the gap: the last one is where the flow ends, as far as the solve can tell.
            ended: Status = "converged" if gap <= _END_GAP * float(state.energy.sum()) else "stalled"
            return replace(state, dual=dual, status=ended)
        size, violation = norm(u_half, communicator), largest_violation(here, u_half, communicator)
        energy = certificate.energy / size  # J is one-homogeneous
        following = self._evaluate(graph, state.backend, u_half / size.to(u.dtype), u, energy, here, push)
        decrease = float((following.norm * (state.ratio - following.ratio)).sum())
        total = float(state.energy.sum())
        moved = abs(decrease) / total if total > 0 else 0.0  # with label priors the ratio may rise as well
        return replace(
            following,
            step=state.step + 1,
            progress=self._progress(state.step + 1),
            dual=dual,
            half_norm=size,
            violation=violation,
            gap=gap,
            inner_iterations=iterations,
            moved=moved,
            still=self._count_still(state, following.u, moved, constraint),
            trace=state.trace,
        )

    def _count_still(self, state: FlowState, u: Tensor, moved: float, constraint: Constraint) -> int:
        """Steps since a label last changed or the ratio last moved; nobody asks where there is no patience."""
        if self.patience is None or self._has_schedule:
            return 0
        label, before = (x.argmax(dim=1) if constraint.coupled else x > 0 for x in (u, state.u))
        changed = state.graph.communicator.max((label != before).any().long())
        return state.still + 1 if moved <= _STILL and not bool(changed) else 0

    def _stop_status(self, state: FlowState) -> Status | None:
        """Whether the flow ends after a step, and how."""
        if not self._has_schedule:
            stands = self.patience is not None and state.still >= self.patience
            if stands or state.change <= self.tol or state.moved <= self.tol**2:
                return "converged"
        return self._end_status(state.step)

    def _has_vanished(self, state: FlowState) -> bool:
        """Whether the energy is zero up to rounding (J ≤ ‖u‖₁ always): separated components, nothing left to do."""
        return float(state.energy.sum()) <= 64 * torch.finfo(state.u.dtype).eps * state.absolute

    def _evaluate(
        self,
        graph: CanonicalGraph,
        backend: Backend,
        u: Tensor,
        u_prev: Tensor,
        energy: Tensor,
        constraint: Constraint,
        push: OptTensor,
    ) -> FlowState:
        """H, R and the linear term R (q − q̃) at a point of known J, and what else is summed over the nodes."""
        communicator = graph.communicator
        size, q = self.normaliser(u, graph.degree, communicator)
        value = ratio(energy, size, precision=64 * torch.finfo(u.dtype).eps)
        linear = q.sub_(along_degree(q, graph.degree, communicator)).mul_(value.to(q.dtype))  # q is a new tensor
        if push is not None:
            linear.add_(push.to(linear.dtype) * value.mean().to(linear.dtype))
        distance, along, absolute = communicator.sums(
            squared_distance(u, u_prev), weighted_sum(graph.degree, u), absolute_sum(u)
        )
        return FlowState(
            graph=graph,
            backend=backend,
            step=0,
            progress=0.0,
            u=u,
            dual=None,
            energy=energy,
            norm=size,
            ratio=value,
            linear=linear,
            change=float(distance.sqrt()),
            degree_part=along,
            absolute=float(absolute),
            half_norm=energy.new_ones(()),
            violation=energy.new_zeros(2),
            constraint=constraint,
        )

    def _solve_step(self, problem: InnerProblem, state: FlowState) -> tuple[Tensor, Tensor, Certificate, int, bool]:
        """Solves one inner problem and says whether its answer may be taken."""
        backend, before = state.backend, problem.constraint.project(problem.u_prev)
        energy = float(state.energy.sum())
        # Rounding of the sums that P is made of; without it a converged flow would be refused.
        noise = 16 * torch.finfo(problem.u_prev.dtype).eps * energy
        distance, push, energies = problem.communicator.sums(*problem.own_terms(before), backend.own_energy(before))
        accept_below = float(problem.smooth_part(distance, push) + energies.sum()) + noise
        gap_tol = math.inf if self.gap_tol is None else max(self.gap_tol * energy, noise)
        first = backend.start(before, state.dual)
        del before  # the backend has its own
        solved, certificate, iterations = solve_inner(
            problem,
            backend,
            first,
            accept_below,
            gap_tol,
            self.inner_iterations,
            self.max_inner_iterations,
        )
        return solved.u, solved.dual, certificate, iterations, float(certificate.primal) <= accept_below


def geometric_steps(total: float, count: int, growth: float) -> list[float]:
    """A schedule: ``count`` time steps that add up to ``total`` and whose ends grow by the factor ``growth``."""
    ends = [total * growth ** (step - (count - 1)) for step in range(count)]
    return [end - before for before, end in zip([0.0, *ends], ends, strict=False)]
