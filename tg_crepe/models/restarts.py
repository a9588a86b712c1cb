from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tg_crepe.energy.normaliser import along_degree
from tg_crepe.flow.cheeger import hard_ratio
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.models.diffusion import centre, diffuse
from tg_crepe.models.task import LabelTask, Solution

#: Runs the flow from a start, on a graph, along a clock, with a number of inner iterations.
Run = Callable[[Tensor, CanonicalGraph, list[float], int], Solution]

#: A restart must bring the ratio of the hard partition this far down to be preferred.
_SWITCH = 0.85


def geometric_clock(total: float, steps: int, growth: float) -> list[float]:
    """Time steps that add up to ``total``, the ends of which grow by a constant factor."""
    ends = [total * growth ** (step - (steps - 1)) for step in range(steps)]
    return [end - before for before, end in zip([0.0, *ends], ends, strict=False)]


def best_restart(
    task: LabelTask,
    default: Solution,
    run: Run,
    start: Tensor,
    graph: CanonicalGraph,
    rate: float,
    volume: Tensor,
    time: float,
) -> Solution:
    r"""Two classes with one label each: the flow again from other starts, and the best cut of them all.

    With so little to hold it, the flow may end in a poor local minimum of the ratio. The Cheeger ratio of the hard
    partition on the original graph, :math:`\sum_l \mathrm{cut}(A_l) / \min(\mathrm{vol} A_l, \mathrm{vol} \bar A_l)`,
    tells; for more classes it is no safe guide, so this is done for two alone.

    Args:
        task (LabelTask): The task.
        default (Solution): The run to beat.
        run (callable): Runs the flow.
        start (torch.Tensor): The start of the default run.
        graph (CanonicalGraph): Its graph.
        rate (float): The screening rate :math:`x`.
        volume (torch.Tensor): Class volumes.
        time (float): The length of the default run in units of :math:`1/x`.
    """

    def cut(solution: Solution) -> float:
        return float(hard_ratio(solution.score.argmax(dim=1), task.graph, 2).sum())

    best, lowest = default, _SWITCH * cut(default)
    for restart in _restarts(task, run, start, graph, rate, volume, time):
        value = cut(restart)
        if value < lowest:
            best, lowest = restart, value
    return best


def _restarts(
    task: LabelTask, run: Run, start: Tensor, graph: CanonicalGraph, rate: float, volume: Tensor, time: float
) -> Iterator[Solution]:
    """A longer flow from the same start, a farther-reaching diffusion, and the two signs of the second eigenvector."""
    yield run(start, graph, geometric_clock(1.5 / rate, 20, 1.15), 40)
    clock = geometric_clock(time / rate, 6, 1.5)
    prob, _ = diffuse(task, task.graph, max(rate / 10, 1e-5), volume, power=3)
    yield run(centre(prob, task.graph, False).to(start.dtype), task.graph, clock, 40)
    degree = task.graph.degree.double().unsqueeze(-1)
    psi = smallest_eigenpairs(task.graph, 2, residual=1e-4)[1][:, 1:] / degree.sqrt()
    u = degree * torch.cat([psi, -psi], dim=1)
    u = u - along_degree(u, degree.view(-1), task.graph.communicator)
    for sign in (1, -1):
        yield run((sign * u).to(start.dtype), task.graph, clock, 40)
