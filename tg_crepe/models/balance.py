from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.models.task import LabelTask
from tg_crepe.models.volume import match_volumes
from tg_crepe.typing import OptTensor

#: Labels a class at which the labels themselves say as much about the volumes of the classes as the assumption that
#: labels equal in number stand for classes equal in volume.
_LABELS = 20

#: A share of the nodes: volumes that are off by no more are what mistakes make, and twice as much is not.
_MISTAKES = 0.05

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


def observed_volume(prob: Tensor, task: LabelTask, volume: Tensor) -> Tensor:
    r"""Class volumes from the labels and, where those were chosen to be equally many, from what a diffusion finds.

    .. math::
        \pi \leftarrow (1 - w)\, \pi + w\, \hat\pi, \qquad
        w = \frac{p}{p + 20} \cdot \frac{1}{1 + 10 \kappa} \cdot
        \min\left( \max\left( \tfrac{\mathrm{TV}(\hat\pi, \pi)}{0.05} - 1, 0 \right), 1 \right),

    with :math:`\hat\pi` the shares of the hard labels of the diffusion, :math:`p` labels a class, :math:`\kappa` the
    :func:`dispersion` of their counts, and TV half the :math:`\ell_1` distance: the more labels there are the better
    :math:`\hat\pi` is, and a small distance is what mistakes make.

    Args:
        prob (torch.Tensor): Soft labels, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels, exclusive ones.
        volume (torch.Tensor): :math:`\pi` from the counts of the labels, of shape :obj:`[num_classes]`.
    """
    found = _shares(prob, task).to(volume)
    distance = float((found - volume).abs().sum()) / 2
    labels = _labels_a_class(task)
    weight = labels / (labels + _LABELS) / (1 + 10 * dispersion(task))
    weight *= min(max(distance / _MISTAKES - 1, 0), 1)
    return (1 - weight) * volume + weight * found


def _shares(score: Tensor, task: LabelTask) -> Tensor:
    """The share of the nodes that every class gets by the largest score, or by its label."""
    chosen = torch.where(task.labelled, task.y, score.argmax(dim=1))
    counts = task.graph.communicator.sum(torch.bincount(chosen, minlength=task.num_classes))
    return counts.double() / task.graph.total_nodes


def balanced(score: Tensor, task: LabelTask, volume: Tensor) -> OptTensor:
    r"""Hard labels whose volumes lie within a tolerance of the wanted ones, where the scores' own do not.

    .. math::
        \frac{\pi_l}{\tau} \leq \frac{1}{n} |\{ i : l_i = l \}| \leq \tau \pi_l, \qquad
        \tau = 1 + \left( \frac{p}{20} \right)^2 + \kappa,

    for :math:`p` labels a class of :func:`dispersion` :math:`\kappa`. With few labels a class, chosen equally many,
    volumes are nearly fixed: where a class has several clusters and one label, nothing else says that a neighbour must
    not take the others. With 20 labels a class, or counts that scatter, they are hardly bound.

    Args:
        score (torch.Tensor): Scores, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels, exclusive ones.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.

    Returns:
        torch.Tensor: Classes of shape :obj:`[num_nodes]`, or :obj:`None` where the scores' own are within bounds.
    """
    tolerance = 1 + (_labels_a_class(task) / _LABELS) ** 2 + dispersion(task)
    share = _shares(score, task).to(volume)
    wanted = _nearest_share(share, volume / tolerance, volume * tolerance)
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
