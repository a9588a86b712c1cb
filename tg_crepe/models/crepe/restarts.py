from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tg_crepe.energy.normaliser import along_degree
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.crepe.diffusion import centre, diffuse
from tg_crepe.solvers.cheeger import hard_ratio

#: Runs the flow from a start, on a graph, along a clock, with a number of inner iterations.
Run = Callable[[Tensor, CanonicalGraph, list[float], int], Solution]

#: Eigenvectors that restarts are made of: the second to the fourth.
_EIGENVECTORS = 3


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

    With so little to hold it, the flow may end in a poor local minimum of the ratio. What tells is the cut of the hard
    partition on the original graph over the *square* of the smaller volume,

    .. math::
        \frac{\mathrm{cut}(A, \bar A)}{\min(\mathrm{vol}\, A, \mathrm{vol}\, \bar A)^2},

    the Cheeger ratio once more divided by the volume, since one label each says that classes are about equal. For more
    classes the cut is no safe guide, so this is done for two alone.

    Args:
        task (LabelTask): The task.
        default (Solution): The first run.
        run (callable): Runs the flow.
        start (torch.Tensor): The start of the first run.
        graph (CanonicalGraph): Its graph.
        rate (float): The screening rate :math:`x`.
        volume (torch.Tensor): Class volumes.
        time (float): The length of the first run in units of :math:`1/x`.
    """
    best, lowest = default, _balanced_cut(default, task)
    for restart in _restarts(task, run, start, graph, rate, volume, time):
        value = _balanced_cut(restart, task)
        if value < lowest:
            best, lowest = restart, value
    return best


def _balanced_cut(solution: Solution, task: LabelTask) -> float:
    """The Cheeger ratio of the hard partition over its smaller volume."""
    label = torch.where(task.labelled, task.y, solution.score.argmax(dim=1))
    degree = task.graph.degree.double()
    volume = task.graph.communicator.sum(torch.stack([degree[label == c].sum() for c in (0, 1)]))
    return float(hard_ratio(label, task.graph, 2)[0] / volume.min())


def _restarts(
    task: LabelTask, run: Run, start: Tensor, graph: CanonicalGraph, rate: float, volume: Tensor, time: float
) -> Iterator[Solution]:
    """A longer flow from the same start, a farther-reaching diffusion, the second to fourth eigenvectors, and the sums
    and differences of any two of them, with the sign that agrees with the labels."""
    yield run(start, graph, geometric_clock(1.5 / rate, 20, 1.15), 40)
    clock = geometric_clock(time / rate, 6, 1.5)
    prob, _ = diffuse(task, task.graph, max(rate / 10, 1e-5), volume, power=3)
    yield run(centre(prob, task.graph, False).to(start.dtype), task.graph, clock, 40)
    over = task.graph.communicator
    degree = task.graph.degree.double().unsqueeze(-1)
    count = min(_EIGENVECTORS, task.graph.total_nodes - 2)
    psi = smallest_eigenpairs(task.graph, count + 1, residual=1e-4)[1][:, 1:] / degree.sqrt()
    mixed = [psi[:, a] + sign * psi[:, b] for a, b in itertools.combinations(range(count), 2) for sign in (1, -1)]
    for direction in [*psi.unbind(dim=1), *mixed]:
        lean = over.sum((direction.unsqueeze(-1) * task.sign.double()).sum(dim=0))
        direction = direction if lean[0] >= lean[1] else -direction
        u = degree * torch.stack([direction, -direction], dim=1)
        yield run((u - along_degree(u, degree.view(-1), over)).to(start.dtype), task.graph, clock, 40)
