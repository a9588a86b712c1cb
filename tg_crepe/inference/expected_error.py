from __future__ import annotations

import math

import torch
from torch import Tensor

from tg_crepe.inference.held_out import HeldOut, leave_out
from tg_crepe.inference.task import ExpectedError, Judgement, LabelTask
from tg_crepe.inference.volumes import normalise_masses, resolve_volume
from tg_crepe.solvers.resolvent import loose_resolvent

#: The screening rate over the root of the labels per class, where a model has none of its own, and the precision of its
#: diffusion.
_RATE, _TOL = 0.03, 1e-2

#: How many labels the diffusion's own doubt counts beside those that were left out.
_DOUBT_LABELS = 3.0

#: How many labels one that was left out counts: the others that judge it are the same for all, and the answer in
#: question is not theirs.
_LABEL_WORTH = 0.25

#: The share of the intervals that should hold the truth.
_COVERAGE = 0.9


def expect_error(doubt: float, held: HeldOut | None, volume: Tensor) -> ExpectedError:
    r"""A Beta posterior: the diffusion's own doubt as the prior, labels that were left out as its observations.

    .. math::
        e \sim \mathrm{Beta}\left( \tfrac{1}{2} + n \bar e + 3 e_0,\; \tfrac{1}{2} + n (1 - \bar e) + 3 (1 - e_0)
        \right), \qquad
        e_0 = 1 - \frac{1}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \max_l P_i^l,

    with :math:`\bar e` the share of wrong ones among the labels that were left out, a label of class :math:`l` counting
    in proportion to the volume :math:`\pi_l` over the share of :math:`l` among them (so that labels chosen equally many
    speak for classes of their true sizes), and :math:`n` a quarter of their effective number
    :math:`(\sum w)^2 / \sum w^2`. With one label per class nothing can be left out and :math:`e_0` is all there is:
    three labels' worth.

    Args:
        doubt (float): :math:`e_0`.
        held (HeldOut, optional): Labels that were left out, at one rate.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
    """
    from scipy.special import betaincinv  # slow to import

    wrong, number = 0.0, 0.0
    if held is not None:
        count = torch.bincount(held.y, minlength=volume.numel()).double()
        weight = (volume.to(count) / count.clamp(min=1))[held.y]
        wrong = float((weight * ~held.hits(volume)[0]).sum() / weight.sum())
        number = _LABEL_WORTH * float(weight.sum().square() / weight.square().sum())
    a = 0.5 + number * wrong + _DOUBT_LABELS * doubt
    b = 0.5 + number * (1 - wrong) + _DOUBT_LABELS * (1 - doubt)
    tail = (1 - _COVERAGE) / 2
    low, high = (float(betaincinv(a, b, q)) for q in (tail, 1 - tail))
    value = a / (a + b)
    return ExpectedError(value, min(low, value), max(high, value))


def judge(task: LabelTask, rate: float | None = None) -> Judgement:
    r"""What labels that were left out say of any model's answer, by a diffusion at one rate.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rate (float, optional): The screening rate :math:`x` of the diffusion, the model's own where it has one.
            (default: :obj:`None`, :math:`0.03 \sqrt{p}` for :math:`p` labels per class)
    """
    if rate is None:
        rate = _RATE * math.sqrt(float(task.positive_count.sum()) / task.num_classes)
    volume = resolve_volume("class_volume", "labels", task)
    x = loose_resolvent(task.graph, task.sources, 1 / (1 + rate), _TOL)
    support = normalise_masses(x, task, task.graph, volume)
    return Judgement(expect_error(own_doubt(support, task), leave_out(task, [rate]), volume), support)


def own_doubt(prob: Tensor, task: LabelTask) -> float:
    """One minus the mean largest entry of soft labels, over the unlabelled nodes."""
    free = ~task.labelled
    total, number = task.graph.communicator.sums(
        prob[free].amax(dim=1).sum().view(1), free.sum().to(prob.dtype).view(1)
    )
    return float(1 - total / number.clamp(min=1)) if float(number) else 0.0


def class_error(held: HeldOut | None, num_classes: int) -> float:
    """The share of wrong ones among the labels that were left out, the mean over the classes, with one wrong and one
    right label imagined; half of chance where none was left out."""
    if held is None:
        return 0.5 * (1 - 1 / num_classes)
    number = held.y.numel()
    return (number * _mean_over_classes(held, num_classes) + 1) / (number + 2)


def label_skill(held: HeldOut, num_classes: int, pseudo_count: float) -> float:
    r"""How much better than chance labels that were left out are found, from 0 to 1.

    .. math::
        \left[ 1 - \frac{m}{m + cL} \cdot \frac{e}{1 - 1/L} \right]_0^1

    for :math:`m` labels that were left out with a mean error over the classes of :math:`e`, and :math:`c` more of every
    class that are imagined to be found: few labels cannot speak against the flow. Where labels are not found, classes
    are no clusters of the graph, and cutting it along its clusters does not help to tell them apart.
    """
    number = held.y.numel()
    wrong = _mean_over_classes(held, num_classes) * number / (number + pseudo_count * num_classes)
    return min(max(1 - wrong / (1 - 1 / num_classes), 0.0), 1.0)


def _mean_over_classes(held: HeldOut, num_classes: int) -> float:
    """The share of the labels of a class that are not found with equal masses, the mean over the classes."""
    count = torch.bincount(held.y, minlength=num_classes).double()
    wrong = torch.bincount(held.y, weights=(~held.hits()[0]).double(), minlength=num_classes)
    return float((wrong / count.clamp(min=1)).sum() / (count > 0).sum())
