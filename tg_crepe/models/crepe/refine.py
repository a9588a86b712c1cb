"""What follows the first flow where labels are few: balanced classes, and other starts for two of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from tg_crepe.energy.dirichlet import cut_ratio
from tg_crepe.energy.normaliser import along_degree
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import found_volume
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.start import Start, centre, diffuse, make_start, trust
from tg_crepe.models.crepe.volumes import VolumePosterior, labels_per_class
from tg_crepe.models.poisson import solve_poisson
from tg_crepe.solvers.ratio_flow import geometric_steps
from tg_crepe.typing import OptTensor

#: The share of the nodes that may have the wrong class of all volumes together.
_MISSED = 0.005


class RunFlow(Protocol):
    """Runs the flow from a start, of its own length and settings or of others."""

    def __call__(
        self, start: Start, time_steps: list[float] | None = None, inner_iterations: int | None = None
    ) -> Solution:
        """The end of the flow and its scores."""
        ...


def rebalance(task: LabelTask, solution: Solution, run: RunFlow, start: Start, recipe: Recipe) -> Solution:
    r"""Runs the flow again from labels whose volumes are within bounds while those of the scores are not.

    The bounds are those of :func:`~tg_crepe.models.crepe.volumes.estimate_volume`, or the volumes themselves where they
    are given. Where a class has several clusters and one label, nothing else says that a neighbour must not take the
    others.
    """
    for number in range(recipe.balancing_rounds):
        score = solution.score
        wanted = wanted_volume(score, task, start.volume)
        if wanted is None:
            return solution
        if number == 0 and labels_per_class(task) < 2:
            # One label per class has no reach of its own: that of Poisson learning is without bound.
            score = solve_poisson(task).score
            within = wanted_volume(score, task, start.volume)
            wanted = found_volume(score, task) if within is None else within
        matched, _ = match_volumes(score, task, wanted)
        label = torch.where(task.labelled, task.y, matched.argmax(dim=1))
        prob = soften(label, task.graph, task.num_classes, recipe.lazy_steps)
        solution = run(make_start(prob, trust(prob, task, recipe), VolumePosterior.given(wanted), task, start.status))
    return solution


def wanted_volume(score: Tensor, task: LabelTask, volume: VolumePosterior) -> OptTensor:
    """The volumes within the bounds of the posterior that are nearest to those of the scores' own labels; :obj:`None`
    where these are within the bounds, to half a per cent of the nodes."""
    share = found_volume(score, task)
    wanted = _nearest_share(share, volume.low, volume.high)
    off = float((wanted - share).abs().sum()) / 2
    return None if off < max(_MISSED, 1 / task.graph.total_nodes) else wanted


def _nearest_share(share: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Shares between two bounds that sum to one; what clipping adds or takes is made up by those with room for it."""
    clipped = torch.minimum(torch.maximum(share, low), high)
    surplus = clipped.sum() - 1
    room = clipped - low if surplus > 0 else high - clipped
    return clipped - surplus * room / room.sum().clamp(min=torch.finfo(room.dtype).tiny)


def soften(label: Tensor, graph: CanonicalGraph, num_classes: int, steps: int) -> Tensor:
    r"""Steps of the lazy walk :math:`P \leftarrow \frac{1}{2} (P + D^{-1} W P)` from one-hot labels, in double."""
    prob = torch.nn.functional.one_hot(label, num_classes).to(graph.edge_weight.dtype)
    half = 0.5 / graph.degree.unsqueeze(-1)
    for _ in range(steps):
        prob = 0.5 * prob + half * graph.multiply(prob)
    return prob.double()


def best_restart(
    task: LabelTask, solution: Solution, run: RunFlow, start: Start, rate: float, recipe: Recipe
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
        solution (Solution): The first run.
        run (callable): Runs the flow.
        start (Start): The start of the first run.
        rate (float): The screening rate :math:`x`.
        recipe (Recipe): The constants.
    """
    best, lowest = solution, _balanced_cut(solution, task)
    for restart in _restarts(task, run, start, rate, recipe):
        value = _balanced_cut(restart, task)
        if value < lowest:
            best, lowest = restart, value
    return best


def _balanced_cut(solution: Solution, task: LabelTask) -> float:
    """The Cheeger ratio of the hard partition over its smaller volume."""
    label = torch.where(task.labelled, task.y, solution.score.argmax(dim=1))
    degree = task.graph.degree.double()
    volume = task.graph.communicator.sum(torch.stack([degree[label == c].sum() for c in (0, 1)]))
    return float(cut_ratio(label, task.graph, 2)[0] / volume.min())


def _restarts(task: LabelTask, run: RunFlow, start: Start, rate: float, recipe: Recipe) -> Iterator[Solution]:
    """A longer flow from the same start, a farther-reaching diffusion, the second to fourth eigenvectors, and the sums
    and differences of any two of them, with the sign that agrees with the labels."""
    inner = recipe.restart_inner_iterations
    long = geometric_steps(recipe.restart_time / rate, recipe.restart_steps, recipe.restart_growth)
    yield run(start, long, inner)
    far = max(rate / recipe.far_reach, recipe.far_least_rate)
    prob, _ = diffuse(task, task.graph, far, start.volume.share, recipe.start_tol, recipe.far_power)
    yield run(_other(start, centre(prob, task.graph, False), task), None, inner)
    communicator, degree = task.graph.communicator, task.graph.degree.double().unsqueeze(-1)
    count = min(recipe.restart_eigenvectors, task.graph.total_nodes - 2)
    psi = smallest_eigenpairs(task.graph, count + 1, residual=1e-4)[1][:, 1:] / degree.sqrt()
    mixed = [psi[:, a] + sign * psi[:, b] for a, b in itertools.combinations(range(count), 2) for sign in (1, -1)]
    for direction in [*psi.unbind(dim=1), *mixed]:
        lean = communicator.sum((direction.unsqueeze(-1) * task.sign.double()).sum(dim=0))
        direction = direction if lean[0] >= lean[1] else -direction
        u = degree * torch.stack([direction, -direction], dim=1)
        yield run(_other(start, u - along_degree(u, degree.view(-1), communicator), task), None, inner)


def _other(start: Start, u: Tensor, task: LabelTask) -> Start:
    """Another start on the task's own graph; scores keep the size that those of the first start have."""
    return Start(u.to(task.sign.dtype), start.size, task.graph, start.volume, start.status)
