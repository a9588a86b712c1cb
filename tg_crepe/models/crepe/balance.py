from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import match_volumes
from tg_crepe.typing import OptTensor

#: Labels a class that say as much of the volumes as nothing does, as in the class prior.
_FEW = 5

#: Labels a class at which volumes are bound to a factor of two.
_LABELS = 40

#: Volumes of equal classes are found off by no more than this over the root of the labels a class; twice as much is no
#: chance.
_CHANCE = 0.25

#: A class that is found this many times as large as its labels say; from there to twice as much they lose their say.
_EXCESS = 2.0

#: Steps of the lazy walk that make hard labels soft again.
_STEPS = 10


def dispersion(task: LabelTask) -> float:
    r"""The index of dispersion of the label counts, :math:`\frac{1}{L-1} \sum_l (m_l - p)^2 / p`, :math:`p = m/L`.

    Labels drawn at random have about 1 where classes are equal, and more where they are not; labels that somebody chose
    to be equally many have 0, and then their counts say nothing of the volumes.
    """
    count = task.positive_count.double()
    mean = count.mean()
    return float(((count - mean).square().sum() / mean) / max(count.numel() - 1, 1))


def _labels_a_class(task: LabelTask) -> float:
    """The mean number p of labels a class."""
    return float(task.positive_count.sum()) / task.num_classes


@dataclass(frozen=True)
class ClassVolumes:
    r"""The shares of the nodes that classes are held to have.

    Args:
        share (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
        doubt (float): How clearly the graph contradicts the counts of the labels, from 0 to 1. (default: :obj:`0.0`)
    """

    share: Tensor
    doubt: float = 0.0


def observed_volume(find: Callable[[Tensor], Tensor], task: LabelTask, share: Tensor) -> ClassVolumes:
    r"""Class volumes from the counts of the labels, and from what a diffusion finds where it contradicts them.

    Counts that are far too small for what the graph shows, such as one label of a class beside 200 of another, are no
    sample of the nodes. With :math:`\hat\pi(\cdot)` the shares of the hard labels that a diffusion with given class
    masses finds, they give way to equal volumes:

    .. math::
        \pi \leftarrow (1 - a)\, \pi + \frac{a}{L}, \qquad
        a = \left[ \tfrac{1}{2} \max_l \frac{\hat\pi_l(1/L)}{\pi_l} - 1 \right]_0^1 .

    Counts that somebody chose to be equal say nothing of the volumes, and then the diffusion is asked, once, since its
    mistakes would grow with every further answer:

    .. math::
        \pi \leftarrow (1 - w)\, \pi + w\, \hat\pi(\pi), \qquad
        w = \frac{p}{p + 5} \cdot \frac{1}{1 + 10 \kappa} \cdot
        \left[ 4 \sqrt{p}\; \mathrm{TV}(\hat\pi(\pi), \pi) - 1 \right]_0^1 ,

    for :math:`p` labels a class, :math:`\kappa` the :func:`dispersion` of their counts and TV half the :math:`\ell_1`
    distance. The brackets are clipped to [0, 1]. What chance makes of the volumes of equal classes shrinks with
    :math:`1/\sqrt{p}`; what unequal classes make of them stays.

    Args:
        find (callable): :math:`\hat\pi`, from and to the shape :obj:`[num_classes]`.
        task (LabelTask): The labels, exclusive ones.
        share (torch.Tensor): :math:`\pi` from the counts of the labels, of shape :obj:`[num_classes]`.
    """
    equal = torch.full_like(share, 1 / task.num_classes)
    found = find(equal)
    unfit = _clip(float((found / share).max()) / _EXCESS - 1)
    share = (1 - unfit) * share + unfit * equal
    if not torch.equal(share, equal):
        found = find(share)
    labels = _labels_a_class(task)
    doubt = _clip(float((found - share).abs().sum()) / 2 * math.sqrt(labels) / _CHANCE - 1)
    doubt /= 1 + 10 * dispersion(task)
    if doubt == 0:
        return ClassVolumes(share)
    weight = doubt * labels / (labels + _FEW)
    return ClassVolumes((1 - weight) * share + weight * found, doubt)


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def found_shares(score: Tensor, task: LabelTask) -> Tensor:
    """The share of the nodes that every class gets by the largest score, or by its label, in double precision."""
    chosen = torch.where(task.labelled, task.y, score.argmax(dim=1))
    counts = task.graph.communicator.sum(torch.bincount(chosen, minlength=task.num_classes))
    return counts.double() / task.graph.total_nodes


def balanced(score: Tensor, task: LabelTask, volume: ClassVolumes) -> OptTensor:
    r"""Hard labels whose volumes lie within a tolerance of the wanted ones, where the scores' own do not.

    .. math::
        \frac{\pi_l}{\tau} \leq \frac{1}{n} |\{ i : l_i = l \}| \leq \tau \pi_l, \qquad
        \tau = 1 + \left( \frac{p}{40} \right)^2 + \kappa + \delta,

    for :math:`p` labels a class of :func:`dispersion` :math:`\kappa`, and the doubt :math:`\delta` about the volumes.
    With few labels a class, chosen equally many, volumes are nearly fixed: where a class has several clusters and one
    label, nothing else says that a neighbour must not take the others. With 40 labels a class, or counts that scatter,
    or a graph that contradicts them, they are hardly bound.

    Args:
        score (torch.Tensor): Scores, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels, exclusive ones.
        volume (ClassVolumes): :math:`\pi` and :math:`\delta`.

    Returns:
        torch.Tensor: Classes of shape :obj:`[num_nodes]`, or :obj:`None` where the scores' own are within bounds.
    """
    tolerance = 1 + (_labels_a_class(task) / _LABELS) ** 2 + dispersion(task) + volume.doubt
    share = found_shares(score, task)
    wanted = _nearest_share(share, volume.share / tolerance, volume.share * tolerance)
    if float((wanted - share).abs().max()) * task.graph.total_nodes < 1:
        return None
    matched, _ = match_volumes(score, task, wanted)
    return torch.where(task.labelled, task.y, matched.argmax(dim=1))


def _nearest_share(share: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Shares between two bounds that sum to one; what clipping adds or takes is made up by those with room for it."""
    clipped = torch.minimum(torch.maximum(share, low), high)
    surplus = clipped.sum() - 1
    room = clipped - low if surplus > 0 else high - clipped
    return clipped - surplus * room / room.sum().clamp(min=torch.finfo(room.dtype).tiny)


def softened(label: Tensor, graph: CanonicalGraph, num_classes: int) -> Tensor:
    r"""Ten steps of the lazy walk :math:`P \leftarrow \frac{1}{2} (P + D^{-1} W P)` from one-hot labels, in double."""
    prob = torch.nn.functional.one_hot(label, num_classes).to(graph.edge_weight.dtype)
    half = 0.5 / graph.degree.unsqueeze(-1)
    for _ in range(_STEPS):
        prob = 0.5 * prob + half * graph.multiply(prob)
    return prob.double()
