from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import resolve_volume
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.nearest_neighbor import path_length
from tg_crepe.models.poisson_mbo import threshold
from tg_crepe.solvers.trace import Status, Trace

#: Steps in which the temperature falls to zero in equal parts.
_COOLING = 20


@functional_transform("volume_mbo")
class VolumeMBO(EnergyModel):
    r"""Threshold dynamics with class volumes from the `"Auction Dynamics: A Volume Constrained MBO Scheme"
    <https://doi.org/10.1016/j.jcp.2017.10.036>`_ paper (functional name: :obj:`volume_mbo`).

    .. math::
        \min_X \sum_l (\mathbf{1} - \mathbf{x}^l)^\top A\, \mathbf{x}^l, \qquad
        X \leftarrow \arg\max_{X' \in \mathcal{X}} \langle A X, X' \rangle, \qquad A = S^2, \quad
        S = D^{-1/2} W D^{-1/2},

    where :math:`\mathcal{X}` are the whole labels with the given ones at labelled nodes and :math:`\pi_l n` nodes in
    class :math:`l`: the heat that leaves the classes in a short time, and what is linear in it at the present labels.
    The square has no negative eigenvalue, so no step raises the energy. A step is an assignment problem, which is
    solved exactly (:func:`~tg_crepe.inference.match_volumes.match_volumes`, in the place of the paper's auction), and
    the start are the Voronoi cells of the labels along shortest paths. Local minima are many, so that the first 20
    steps add noise whose size falls from the temperature to zero. The class sizes are met exactly; the paper also
    has bounds for them. A finding of multi-label data has two classes and its own threshold.

    Args:
        temperature (float, optional): The standard deviation of the noise at the start, in units of the mean row of
            :math:`A`; 0 is without. (default: :obj:`0.1`, the value of GraphLearning)
        max_steps (int, optional): The limit of steps. (default: :obj:`100`)
        seed (int, optional): What the noise is drawn with. (default: :obj:`0`)
        **options: Those of :class:`EnergyModel`; ``bind_volume`` is :obj:`"labels"` unless it is given.
    """

    distributed = False

    def __init__(
        self,
        temperature: float = 0.1,
        max_steps: int = 100,
        seed: int = 0,
        **options: Unpack[ModelOptions],
    ) -> None:
        options.setdefault("bind_volume", "labels")
        super().__init__(**options)
        if self.bind_volume is None:
            raise ValueError("'bind_volume' must be given, got None: the labels are assigned by it")
        if not isinstance(temperature, float | int) or not 0 <= temperature < math.inf:
            raise ValueError(f"'temperature' must be a number >= 0, got {temperature!r}")
        check_count("max_steps", max_steps)
        check_count("seed", seed, low=0)
        self.temperature = temperature
        self.max_steps = max_steps
        self.seed = seed

    def _solve(self, task: LabelTask) -> Solution:
        assert self.bind_volume is not None  # checked at construction
        volume = resolve_volume("bind_volume", self.bind_volume, task)
        state, trace = _voronoi_cells(task), Trace()
        total = _heat(task.graph, torch.ones_like(state[:, :1])).double().sum()
        generator = torch.Generator().manual_seed(self.seed)
        status: Status = "step_limit"
        u = _heat(task.graph, state)
        for number in range(1, self.max_steps + 1):
            noise = self.temperature * max(0.0, 1 - (number - 1) / _COOLING)
            noisy = u
            if noise > 0:
                drawn = torch.randn(u.shape, generator=generator, dtype=torch.float64).to(u)
                noisy = u + noise * (total / u.size(0)).to(u) * drawn
            score, missed = match_volumes(noisy, task, volume)
            before, state = state, threshold(score, task)
            u = _heat(task.graph, state)
            changed = int((state != before).any(dim=1).sum())
            kept = (u.double() * state).sum() / total  # the part of the heat that stays in its class
            trace.append(step=number, changed=changed, missed=missed, kept=kept)
            if changed == 0 and noise == 0:
                status = "converged"
                break
        # What the labels are the best assignment for; with the prices, they are its largest entries.
        return Solution(u, match_volumes(u, task, volume)[0], trace, status)

    def __repr__(self) -> str:
        return model_repr(self, temperature=self.temperature, seed=self.seed)


def _heat(graph: CanonicalGraph, x: Tensor) -> Tensor:
    """The product with the square of the normalised adjacency."""
    return graph.normalised @ (graph.normalised @ x)


def _voronoi_cells(task: LabelTask) -> Tensor:
    """Every node with the label that is nearest along the graph, of the shape of ``task.sign``."""
    distance, _ = path_length(task.graph, task.sources > 0)
    if not task.multi_label:
        return one_hot(distance.argmin(dim=1), task.num_classes).to(task.sign.dtype)
    present, absent = distance.chunk(2, dim=1)
    return (present < absent).to(task.sign.dtype)
