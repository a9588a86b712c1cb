from __future__ import annotations

import math

import torch
from torch import Tensor

from tg_crepe.graph.reductions import plain_sum
from tg_crepe.inference.held_out import HeldOut, deal_labels, leave_out
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

    with :math:`\bar e` the share of wrong ones among the labels that were left out, each counting its
    :func:`label_worth`, and :math:`n` a quarter of their effective number. With one label per class nothing can be left
    out and :math:`e_0` is all there is: three labels' worth.

    Args:
        doubt (float): :math:`e_0`.
        held (HeldOut, optional): Labels that were left out, at one rate.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
    """
    wrong, number = 0.0, 0.0
    if held is not None:
        weight = label_worth(held.y, volume)
        wrong = float((weight * ~held.hits(volume)[0]).sum() / weight.sum())
        number = _LABEL_WORTH * _effective_number(weight)
    a = 0.5 + number * wrong + _DOUBT_LABELS * doubt
    b = 0.5 + number * (1 - wrong) + _DOUBT_LABELS * (1 - doubt)
    return ExpectedError(a / (a + b), *_interval(a, b, a / (a + b)))


def expect_doubt(doubt: float, worth: Tensor | None) -> ExpectedError:
    r"""The doubt :math:`e` of calibrated soft labels as the expected error, with the interval of

    .. math::
        \mathrm{Beta}\left( \tfrac{1}{2} + n e,\; \tfrac{1}{2} + n (1 - e) \right)

    for :math:`n` labels: three, and a quarter of the effective number of those that calibrated them.

    Args:
        doubt (float): :math:`e`, see :func:`own_doubt`.
        worth (torch.Tensor, optional): What each of the labels that were left out was worth, of shape
            :obj:`[num_judged]`.
    """
    number = _DOUBT_LABELS + (0.0 if worth is None else _LABEL_WORTH * _effective_number(worth))
    return ExpectedError(doubt, *_interval(0.5 + number * doubt, 0.5 + number * (1 - doubt), doubt))


def label_worth(y: Tensor, volume: Tensor) -> Tensor:
    r"""What labels of the classes ``y`` are worth, one on average: a label of class :math:`l` counts in proportion to
    :math:`\pi_l` over the share of :math:`l` among them, so that labels chosen equally many speak for classes of their
    true sizes.

    Args:
        y (torch.Tensor): Classes of shape :obj:`[num_judged]`.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
    """
    count = torch.bincount(y, minlength=volume.numel()).double()
    worth = (volume.to(count) / count.clamp(min=1))[y]
    return worth / worth.mean()


def _effective_number(worth: Tensor) -> float:
    r"""As how many equal labels they count: :math:`(\sum w)^2 / \sum w^2`."""
    return float(worth.sum().square() / worth.square().sum())


def _interval(a: float, b: float, value: float) -> tuple[float, float]:
    """The middle of a Beta distribution, widened to hold ``value``."""
    from scipy.special import betaincinv  # slow to import

    tail = (1 - _COVERAGE) / 2
    low, high = (float(betaincinv(a, b, q)) for q in (tail, 1 - tail))
    return min(low, value), max(high, value)


def judge(task: LabelTask, rate: float | None = None) -> Judgement:
    r"""What labels that were left out say of any model's answer, by a diffusion at one rate.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rate (float, optional): The screening rate :math:`x` of the diffusion, the model's own where it has one.
            (default: :obj:`None`, :math:`0.03 \sqrt{p}` for :math:`p` labels per class)
    """
    if rate is None:
        rate = _own_rate(task)
    volume = resolve_volume("class_volume", "labels", task)
    support, part = diffused_support(task, rate), deal_labels(task, rate)
    held = None if part is None else leave_out(task, [rate], part)
    return Judgement(expect_error(own_doubt(support, task), held, volume), support)


def diffused_support(task: LabelTask, rate: float | None = None) -> Tensor:
    """Soft labels of a plain diffusion of the labels, in double precision, of shape :obj:`[num_nodes, num_classes]`.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rate (float, optional): See :func:`judge`.
    """
    volume = resolve_volume("class_volume", "labels", task)
    x = loose_resolvent(task.graph, task.sources, 1 / (1 + (_own_rate(task) if rate is None else rate)), _TOL)
    return normalise_masses(x, task, task.graph, volume)


def _own_rate(task: LabelTask) -> float:
    return _RATE * math.sqrt(float(task.positive_count.sum()) / task.num_classes)


def own_doubt(prob: Tensor, task: LabelTask) -> float:
    """One minus the mean largest entry of soft labels, over the unlabelled nodes."""
    return mean_doubt(prob.amax(dim=1), task)


def mean_doubt(top: Tensor, task: LabelTask) -> float:
    """One minus the mean of the largest shares of the nodes, of shape :obj:`[num_nodes]`, over the unlabelled ones."""
    free = ~task.labelled
    total, number = task.graph.communicator.sums(plain_sum(top[free]).view(1), free.sum().double().view(1))
    return float(1 - total / number.clamp(min=1)) if float(number) else 0.0


def class_error(held: HeldOut | None, num_classes: int) -> float:
    """The share of wrong ones among the labels that were left out, the mean over the classes, with one wrong and one
    right label imagined; half of chance where none was left out."""
    if held is None:
        return 0.5 * (1 - 1 / num_classes)
    number = held.y.numel()
    return (number * _mean_over_classes(held, num_classes) + 1) / (number + 2)


def _mean_over_classes(held: HeldOut, num_classes: int) -> float:
    """The share of the labels of a class that are not found with equal masses, the mean over the classes."""
    count = torch.bincount(held.y, minlength=num_classes).double()
    wrong = torch.bincount(held.y, weights=(~held.hits()[0]).double(), minlength=num_classes)
    return float((wrong / count.clamp(min=1)).sum() / (count > 0).sum())
