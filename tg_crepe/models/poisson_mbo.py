from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count, check_positive
from tg_crepe.inference.match_volumes import volume_offsets
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import resolve_volume
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.poisson import poisson_source, solve_poisson
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import OptTensor


@functional_transform("poisson_mbo")
class PoissonMBO(EnergyModel):
    r"""Poisson learning with class volumes, by the threshold dynamics of Merriman, Bence and Osher, from the `"Poisson
    Learning: Graph Based Semi-Supervised Learning at Very Low Label Rates"
    <https://proceedings.mlr.press/v119/calder20a.html>`_ paper (functional name: :obj:`poisson_mbo`).

    .. math::
        \mathbf{u} \leftarrow \mathbf{u} - \delta (L \mathbf{u} - \mu\, \mathbf{b}) \text{ (40 times)}, \qquad
        \mathbf{u}_i \leftarrow \mathbf{e}_{l_i}, \quad l_i = \arg\max_l (u_i^l + p_l),

    where :math:`\mathbf{b}` is the source of :class:`Poisson`, from whose solution it starts, :math:`\delta` one over
    the largest degree, and the prices :math:`p` give every class its volume (see
    :func:`~tg_crepe.inference.match_volumes.match_volumes`; the paper multiplies by factors instead, which needs scores
    of one sign). It ends when no label changes. A finding of multi-label data has its own threshold.

    Args:
        fidelity (float, optional): :math:`\mu`, in units of the smallest power of two that no weight exceeds.
            (default: :obj:`1.0`, the value of the paper)
        inner_steps (int, optional): Steps of diffusion between two thresholds. (default: :obj:`40`, that of the paper)
        max_steps (int, optional): Thresholds at most. (default: :obj:`20`, that of the paper)
        **options: Those of :class:`EnergyModel`; ``bind_volume`` is :obj:`"labels"` unless it is given.
    """

    def __init__(
        self,
        fidelity: float = 1.0,
        inner_steps: int = 40,
        max_steps: int = 20,
        **options: Unpack[ModelOptions],
    ) -> None:
        options.setdefault("bind_volume", "labels")
        super().__init__(**options)
        if self.bind_volume is None:
            raise ValueError("'bind_volume' must be given, got None: the thresholds are made by it")
        check_positive("fidelity", fidelity)
        check_count("inner_steps", inner_steps)
        check_count("max_steps", max_steps)
        self.fidelity = fidelity
        self.inner_steps = inner_steps
        self.max_steps = max_steps

    def _solve(self, task: LabelTask) -> Solution:
        assert self.bind_volume is not None  # checked at construction
        volume = resolve_volume("bind_volume", self.bind_volume, task)
        graph, communicator = task.graph, task.graph.communicator
        degree = graph.degree.unsqueeze(-1)
        # In units of the largest weight, which is about one in the paper; as a power of two, which rounds nothing.
        push = self.fidelity * 2.0**graph.unit_exponent * poisson_source(task).to(task.sign.dtype)
        step = 1 / communicator.max(degree.max() if degree.numel() else degree.new_zeros(()))
        keep, push = 1 - step * degree, step * push  # u − δ (L u − μ b) = (1 − δ d) u + δ W u + δ μ b
        score = solve_poisson(task).score.double()
        offset, _ = volume_offsets(score, task, volume)
        state, trace = threshold(score + offset, task), Trace()
        start: OptTensor = None  # the sizes of these scores are others than those of the next ones
        status: Status = "step_limit"
        for number in range(1, self.max_steps + 1):
            u = state
            for _ in range(self.inner_steps):
                u = graph.add_product(torch.addcmul(push, keep, u), u, step)
            score = u.double()
            start, missed = volume_offsets(score, task, volume, start)  # from one threshold to the next little moves
            score = score + start
            before, state = state, threshold(score, task)
            changed = int(communicator.sum((state != before).any(dim=1).sum()))
            trace.append(step=number, changed=changed, missed=missed)
            if changed == 0:
                status = "converged"
                break
        return Solution(u, score, trace, status)

    def __repr__(self) -> str:
        return model_repr(self, fidelity=self.fidelity, inner_steps=self.inner_steps)


def threshold(score: Tensor, task: LabelTask) -> Tensor:
    """Ones at the class of the largest score (findings: where it is positive), and at what is known."""
    if task.multi_label:
        chosen = score > 0
    else:
        chosen = torch.zeros_like(score, dtype=torch.bool).scatter_(1, score.argmax(dim=1, keepdim=True), True)
    return torch.where(task.sign != 0, task.sign > 0, chosen).to(task.sign.dtype)
