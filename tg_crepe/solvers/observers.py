"""What looks on while a flow runs: the trace, the progress bar, snapshots, and whatever a user adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe.energy.constraint import Constraint
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.communicator import Communicator
from tg_crepe.solvers.chambolle_pock import Backend
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import OptTensor


@dataclass
class FlowState:
    r"""Where a ratio flow is after a step; row 0 is its start.

    Args:
        graph (CanonicalGraph): The graph.
        backend (Backend): What carries out the iterations; it knows the layout of ``dual``.
        step (int): The number of outer steps so far.
        progress (float): The share of the schedule that is done, NaN where the length is not known beforehand.
        u (torch.Tensor): :math:`\mathbf{u}_k` of unit norm, of shape :obj:`[num_nodes, num_classes]`.
        dual (torch.Tensor, optional): The dual of the last inner problem.
        energy (torch.Tensor): :math:`J` of every class, of shape :obj:`[num_classes]`.
        norm (torch.Tensor): :math:`H` of every class.
        ratio (torch.Tensor): :math:`R = J/H` of every class.
        linear (torch.Tensor): :math:`R (q - \tilde q)`, the linear term of the next step, of the shape of ``u``.
        change (float): The distance to the iterate before.
        degree_part (torch.Tensor): :math:`\langle d, u^l \rangle` of every class.
        absolute (float): :math:`\|\mathbf{u}\|_1`.
        half_norm (torch.Tensor): The norm of :math:`\mathbf{u}_{k-1/2}`, the iterate before it was scaled.
        violation (torch.Tensor): How far that one is from coupled classes and from the margins at most
            (:func:`largest_violation`), of shape :obj:`[2]`.
        constraint (Constraint): The set :math:`C` that it lies in, with the margin of this step.
        gap (float): The duality gap of the inner problem.
        inner_iterations (int): The iterations that it took.
        moved (float): The weighted change of the ratio over the step, relative to the energy.
        still (int): Steps since a label last changed or the ratio last moved.
        status (str, optional): How the flow ended; :obj:`None` while it has not.
        trace (Trace): What :class:`TraceRecorder` has written so far.
    """

    graph: CanonicalGraph
    backend: Backend
    step: int
    progress: float
    u: Tensor
    dual: OptTensor
    energy: Tensor
    norm: Tensor
    ratio: Tensor
    linear: Tensor
    change: float
    degree_part: Tensor
    absolute: float
    half_norm: Tensor
    violation: Tensor
    constraint: Constraint
    gap: float = float("nan")
    inner_iterations: int = 0
    moved: float = 0.0
    still: int = 0
    status: Status | None = None
    trace: Trace = field(default_factory=Trace)


@dataclass(frozen=True)
class FlowCheckpoint:
    r"""What a flow needs to go on after a fault as if nothing had happened.

    Args:
        step (int): The outer steps that are done.
        u (torch.Tensor): The iterate, of shape :obj:`[num_nodes, num_classes]`.
        dual (torch.Tensor, optional): The dual of every directed edge, in the order of the graph's rows, of shape
            :obj:`[num_directed_edges, num_classes]`; :obj:`None` for a flow that has ended.
        energy (torch.Tensor): The energy of every class, of shape :obj:`[num_classes]`.
        still (int): Steps since a label last changed.
        status (str, optional): How the flow ended; :obj:`None` while it has not.
        trace (dict): The columns of its trace.
    """

    step: int
    u: Tensor
    dual: OptTensor
    energy: Tensor
    still: int
    status: Status | None
    trace: dict[str, list[Any]]

    @staticmethod
    def of(state: FlowState) -> FlowCheckpoint:
        """The checkpoint of a state; of a flow that has ended, without the dual."""
        dual = None
        if state.status is None and state.dual is not None:
            dual = state.backend.by_slot(state.dual)
        return FlowCheckpoint(state.step, state.u, dual, state.energy, state.still, state.status, state.trace.to_dict())


class FlowObserver:
    """Looks on while flows run. A model may run several, one after the other; every method may be left as it is."""

    def resume(self, graph: CanonicalGraph) -> FlowCheckpoint | None:
        """What was kept of the flow that is about to begin on a graph, asked once per flow."""
        return None

    def on_begin(self, state: FlowState) -> None:
        """A flow stands at its start, or where it was resumed."""

    def on_step(self, state: FlowState) -> None:
        """A step was taken."""

    def on_end(self, state: FlowState) -> None:
        """The flow has ended, with ``state.status``."""


def find_checkpoint(observers: Sequence[FlowObserver], graph: CanonicalGraph) -> FlowCheckpoint | None:
    """What the first of the observers that has kept anything would resume from; all of them are asked."""
    found = [observer.resume(graph) for observer in observers]
    return next((kept for kept in found if kept is not None), None)


class TraceRecorder(FlowObserver):
    """Writes one row per step into ``state.trace``; row 0 is the start."""

    def on_begin(self, state: FlowState) -> None:
        """The row of the start; a flow that is resumed brings its rows along."""
        if len(state.trace) == 0:
            self.on_step(state)

    def on_step(self, state: FlowState) -> None:
        """The row of a step."""
        coupling, margin = state.violation
        state.trace.append(
            step=state.step,
            energy=state.energy,
            norm=state.norm,
            ratio=state.ratio,
            sum_of_ratios=state.ratio.sum(),
            change=state.change,
            gap=state.gap,
            inner_iterations=state.inner_iterations,
            half_norm=state.half_norm,
            degree_violation=state.degree_part.abs().max(),
            coupling_violation=coupling,
            margin_violation=margin,
        )


def largest_violation(constraint: Constraint, u: Tensor, communicator: Communicator) -> Tensor:
    """The largest violation of coupling and of margins on any process, of which one may have no node."""
    if not u.numel():
        return communicator.max(u.new_zeros(2))
    return communicator.max(torch.stack([constraint.coupling_violation(u), constraint.margin_violation(u)]))


class ProgressBar(FlowObserver):
    """A bar on a terminal, for flows that take more than three seconds.

    Args:
        total (int): The number of steps at most.
    """

    def __init__(self, total: int) -> None:
        self._total = total

    def on_begin(self, state: FlowState) -> None:
        """Makes the bar, on the first process alone."""
        hidden = None if state.graph.communicator.rank == 0 else True
        self._bar = tqdm(total=self._total, initial=state.step, desc="ratio flow", delay=3, disable=hidden, leave=False)

    def on_step(self, state: FlowState) -> None:
        """One step further."""
        self._bar.update()

    def on_end(self, state: FlowState) -> None:
        """Removes the bar."""
        self._bar.close()


@dataclass(frozen=True)
class FlowMoments:
    r"""The class functions of some nodes at a few moments of a flow.

    Args:
        node (torch.Tensor): The nodes, of shape :obj:`[num_kept]`.
        time (torch.Tensor): The moments as shares of the flow's length, of shape :obj:`[num_moments]`.
        u (torch.Tensor): In units of the mean of :math:`|\mathbf{u}|`, in half precision, of shape
            :obj:`[num_moments, num_kept, num_classes]`.
    """

    node: Tensor
    time: Tensor
    u: Tensor


class Snapshots(FlowObserver):
    r"""Keeps the class functions of some nodes after every step of a flow whose length is known.

    Args:
        node (torch.Tensor): The nodes, of shape :obj:`[num_kept]`.
    """

    def __init__(self, node: Tensor) -> None:
        self._node = node
        self._kept: list[tuple[float, Tensor]] = []

    def on_step(self, state: FlowState) -> None:
        """Keeps the rows of the nodes."""
        scale = state.u.abs().mean().clamp(min=torch.finfo(state.u.dtype).tiny)
        rows = (state.u[self._node] / scale).clamp(-6e4, 6e4)  # what half precision can hold
        self._kept.append((state.progress, rows.half().cpu()))

    def near(self, shares: Sequence[float]) -> FlowMoments | None:
        """The moments that are nearest to some shares of the flow's length; None of a flow without a known length."""
        kept = [(time, u) for time, u in self._kept if time == time]
        if not kept:
            return None
        times = torch.tensor([time for time, _ in kept])
        chosen = sorted({int((times - share).abs().argmin()) for share in shares})
        return FlowMoments(self._node.cpu(), times[chosen], torch.stack([kept[i][1] for i in chosen]))
