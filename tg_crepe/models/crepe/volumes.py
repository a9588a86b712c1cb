from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.recipe import Recipe


@dataclass(frozen=True)
class VolumeEstimate:
    r"""The class volumes that the flow goes by.

    Args:
        share (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
        doubt (float): How clearly the graph contradicts the counts of the labels, from 0 to 1. (default: :obj:`0.0`)
    """

    share: Tensor
    doubt: float = 0.0


def count_dispersion(task: LabelTask) -> float:
    r"""The index of dispersion of the label counts, :math:`\frac{1}{L-1} \sum_l (m_l - p)^2 / p`, :math:`p = m/L`.

    Labels drawn at random have about 1 where classes are equal, and more where they are not; labels that somebody chose
    to be equally many have 0, and then their counts say nothing of the volumes.
    """
    count = task.positive_count.double()
    mean = count.mean()
    return float(((count - mean).square().sum() / mean) / max(count.numel() - 1, 1))


def labels_per_class(task: LabelTask) -> float:
    """The mean number p of labels per class."""
    return float(task.positive_count.sum()) / task.num_classes


def observe_volume(find: Callable[[Tensor], Tensor], task: LabelTask, share: Tensor, recipe: Recipe) -> VolumeEstimate:
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

    for :math:`p` labels per class, :math:`\kappa` the :func:`count_dispersion` and TV half the :math:`\ell_1`
    distance. The brackets are clipped to [0, 1]. What chance makes of the volumes of equal classes shrinks with
    :math:`1/\sqrt{p}`; what unequal classes make of them stays. The numbers are those of the default recipe.

    Args:
        find (callable): :math:`\hat\pi`, from and to the shape :obj:`[num_classes]`.
        task (LabelTask): The labels, exclusive ones.
        share (torch.Tensor): :math:`\pi` from the counts of the labels, of shape :obj:`[num_classes]`.
        recipe (Recipe): The constants.
    """
    equal = torch.full_like(share, 1 / task.num_classes)
    found = find(equal)
    unfit = _clip(float((found / share).max()) / recipe.volume_excess - 1)
    share = (1 - unfit) * share + unfit * equal
    if not torch.equal(share, equal):
        found = find(share)
    labels = labels_per_class(task)
    doubt = _clip(float((found - share).abs().sum()) / 2 * math.sqrt(labels) / recipe.volume_chance - 1)
    doubt /= 1 + recipe.count_scatter * count_dispersion(task)
    if doubt == 0:
        return VolumeEstimate(share)
    weight = doubt * labels / (labels + recipe.volume_labels)
    return VolumeEstimate((1 - weight) * share + weight * found, doubt)


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)
