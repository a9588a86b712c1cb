"""What follows the first flow where labels are few: balanced classes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import found_volume
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.start import Start, make_start, trust
from tg_crepe.models.crepe.volumes import VolumePosterior, labels_per_class
from tg_crepe.models.poisson import solve_poisson
from tg_crepe.typing import OptTensor

#: The share of the nodes that may have the wrong class of all volumes together.
_MISSED = 0.005


def rebalance(
    task: LabelTask, solution: Solution, run: Callable[[Start], Solution], start: Start, recipe: Recipe
) -> Solution:
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
