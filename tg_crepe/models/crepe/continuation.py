"""A call with a few more labels goes on from the last one: most of what they change is near them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tg_crepe.graph.reductions import norm
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import normalise_masses
from tg_crepe.models.crepe.pooling import PoolTrust
from tg_crepe.models.crepe.start import Start, make_start
from tg_crepe.solvers.observers import FlowObserver, FlowState
from tg_crepe.solvers.resolvent import resolvent
from tg_crepe.typing import OptTensor

#: How many labels may come, as a share of those that there were: beyond it scale, volumes and trust are asked for anew.
_FEW = 0.005


@dataclass(frozen=True)
class Continuation:
    """What a call leaves for the next one on the same prepared graph.

    Args:
        settings (str): The settings of the model.
        task (LabelTask): The labels, and the part of the graph that they reach.
        start (Start): Where the flow began.
        clock (float): The rate that set its length.
        rate (float): The rate of the diffusion that it began with.
        trust (PoolTrust, optional): What labels that were left out said: a few more would hardly change it, and to ask
            them takes as long as all the rest.
        u (torch.Tensor): Where it was before its last step, of shape :obj:`[num_nodes, num_classes]`.
        dual (torch.Tensor): The dual there.
    """

    settings: str
    task: LabelTask
    start: Start
    clock: float
    rate: float
    trust: PoolTrust | None
    u: Tensor
    dual: Tensor

    def fits(self, task: LabelTask, settings: str) -> bool:
        """Whether a task is that of the last call with a few more labels."""
        before = self.task
        if settings != self.settings or task.graph is not before.graph or task.multi_label != before.multi_label:
            return False
        if not torch.equal(task.classes, before.classes):
            return False
        if task.u0 is not None or task.evidence is not None or task.observers or task.snapshot_rows is not None:
            return False
        kept = before.labelled
        new = int(task.labelled.sum()) - int(kept.sum())
        return 0 <= new <= _FEW * int(kept.sum()) and torch.equal(task.sign[kept], before.sign[kept])

    def begin(self, task: LabelTask, tol: float, alpha: float) -> tuple[Start, Tensor]:
        r"""The start with the new labels, and the point before the last step moved by as much as the start has.

        Edges, scale and volumes are those of the last call, so that the diffusion of the new labels alone is added,
        in the columns of their classes.
        """
        graph = self.start.graph
        added = task.sources - self.task.sources
        columns = (added != 0).any(dim=0)
        assert self.start.diffused is not None  # a start that is continued has it
        x = self.start.diffused.clone()
        if bool(columns.any()):
            x[:, columns] += resolvent(graph, added[:, columns].contiguous(), alpha, tol).x
        prob = normalise_masses(x, task, graph, self.start.volume.share)
        start = make_start(prob, graph, self.start.volume, task, self.start.status)
        start = replace(start, support=self.start.support)
        return start, self.u + _unit(start.u) - _unit(self.start.u)


class LastStep(FlowObserver):
    """Keeps a flow as it was before its last step.

    Args:
        steps (int): The number of steps of the flow.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.u: OptTensor = None
        self.dual: OptTensor = None

    def on_step(self, state: FlowState) -> None:
        """Keeps the state that the last step begins with."""
        if state.step == self.steps - 1 and state.dual is not None:
            self.u, self.dual = state.u, state.dual.clone()  # the dual is overwritten, the point is not


def _unit(u: Tensor) -> Tensor:
    return u / norm(u).to(u.dtype)
