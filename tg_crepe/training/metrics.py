from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._checks import check_count, check_tensor
from tg_crepe._optional import require
from tg_crepe.inference.soft_labels import fit_sharpness


@dataclass(frozen=True)
class AreaUnderCurve:
    r"""The area under the receiver operating characteristic of every class.

    Args:
        per_class (dict): The area by class.
        average (float, optional): Their mean; :obj:`None` if there is no class.
        left_out (list): Classes without a positive or without a negative, which have no area.
    """

    per_class: dict[int, float]
    average: float | None
    left_out: list[int]


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    r"""How often predictions of a confidence are right; bins without a prediction are left out.

    Args:
        confidence (torch.Tensor): The mean confidence in each bin.
        accuracy (torch.Tensor): The share that is right in each bin.
        count (torch.Tensor): The number of predictions in each bin.
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def expected_error(self) -> float | None:
        r"""The expected calibration error :math:`\sum_b \frac{n_b}{n} |a_b - c_b|`, or :obj:`None` without data."""
        if self.count.numel() == 0:
            return None
        gap = (self.accuracy - self.confidence).abs()
        return float((self.count * gap).sum() / self.count.sum())


def error_rate(score: Tensor, target: Tensor) -> float | None:
    r"""The share of images whose class is not that of the largest score; for findings the share of wrong ones.

    Args:
        score (torch.Tensor): Scores of shape :obj:`[num_images, num_classes]`; for findings probabilities, which are
            called present above one half.
        target (torch.Tensor): Classes, long of shape :obj:`[num_images]`, or findings 0/1 of the shape of ``score``.
            What is negative (or NaN) is left out.

    Returns:
        float, optional: A number in [0, 1], or :obj:`None` where nothing is known.
    """
    _check_pair("score", score, target)
    known = target >= 0
    if not bool(known.any()):
        return None
    functional = require("torchmetrics.functional.classification", extra="train")
    predicted = (score > 0.5).long() if target.dim() == 2 else score.argmax(dim=1)
    num_classes = 2 if target.dim() == 2 else max(score.size(1), 2)  # torchmetrics wants two at least
    accuracy = functional.multiclass_accuracy(
        predicted[known], target[known].long(), num_classes=num_classes, average="micro"
    )
    return 1 - float(accuracy)


def pseudo_label_error(pseudo_y: Tensor, truth: Tensor, pseudo_mask: Tensor) -> float | None:
    r"""The share of wrong pseudo-labels; labelled images, which are right by construction, do not count.

    Args:
        pseudo_y (torch.Tensor): Hard pseudo-labels, long of shape :obj:`[num_nodes]` or
            :obj:`[num_nodes, num_classes]`.
        truth (torch.Tensor): The true labels, of the same shape; what is negative (or NaN) is left out.
        pseudo_mask (torch.Tensor): Which nodes have a pseudo-label, bool of shape :obj:`[num_nodes]`.

    Returns:
        float, optional: A number in [0, 1], or :obj:`None` where there is nothing to compare.
    """
    for name, value in (("truth", truth), ("pseudo_mask", pseudo_mask)):
        shape = list(pseudo_y.shape) if name == "truth" else [pseudo_y.size(0)]
        if list(check_tensor(name, value).shape) != shape:
            raise ValueError(f"'{name}' must be of shape {shape}, got {list(value.shape)}")
    predicted, true = pseudo_y[pseudo_mask], truth[pseudo_mask]
    known = (true >= 0) & (predicted >= 0)
    if not bool(known.any()):
        return None
    return float((predicted[known] != true[known]).double().mean())


def area_under_curve(score: Tensor, target: Tensor) -> AreaUnderCurve:
    r"""The area under the curve of every class against the rest, or of every finding.

    Args:
        score (torch.Tensor): Scores of shape :obj:`[num_images, num_classes]`; only their order within a class counts.
        target (torch.Tensor): Classes, long of shape :obj:`[num_images]`, or findings 0/1 of the shape of ``score``.
            What is negative (or NaN) is left out.
    """
    _check_pair("score", score, target)
    functional = require("torchmetrics.functional.classification", extra="train")
    per_class, left_out = {}, []
    for k in range(score.size(1)):
        column = target if target.dim() == 1 else target[:, k]
        known = column >= 0
        positive = (column[known] == (k if target.dim() == 1 else 1)).long()
        if bool((positive == positive[:1]).all()):
            left_out.append(k)
            continue
        # torchmetrics puts scores outside [0, 1] through a sigmoid, which ties small or large ones: hand it ranks.
        rank = score[known, k].unique(return_inverse=True)[1]
        per_class[k] = float(functional.binary_auroc(rank.double() / known.numel(), positive))
    average = sum(per_class.values()) / len(per_class) if per_class else None
    return AreaUnderCurve(per_class, average, left_out)


def reliability_curve(prob: Tensor, target: Tensor, num_bins: int = 15) -> ReliabilityCurve:
    r"""Compares the confidence of predictions with how often they are right, in bins of equal width.

    The confidence in a class is its probability where it is the largest; that in a finding its probability, right where
    the finding is present. The last bin holds probability 1, as networks do give it.

    Args:
        prob (torch.Tensor): Probabilities, of shape :obj:`[num_images, num_classes]`.
        target (torch.Tensor): Classes, long of shape :obj:`[num_images]`, or findings 0/1 of the shape of ``prob``.
            What is negative (or NaN) is left out.
        num_bins (int, optional): The number of bins. (default: :obj:`15`)
    """
    _check_pair("prob", prob, target)
    check_count("num_bins", num_bins)
    if not bool(((prob >= 0) & (prob <= 1 + 1e-6)).all()):
        raise ValueError("'prob' must hold probabilities in [0, 1], got other values; pass a softmax, not logits")
    known = target >= 0
    if target.dim() == 2:
        confidence, right = prob[known].double(), (target[known] == 1).double()
    else:
        confidence, predicted = prob[known].double().max(dim=1)
        right = (predicted == target[known]).double()
    index = (confidence * num_bins).long().clamp(max=num_bins - 1)
    count = torch.bincount(index, minlength=num_bins)
    filled = count > 0
    count = count[filled].double()
    return ReliabilityCurve(
        confidence=torch.bincount(index, confidence, minlength=num_bins)[filled] / count,
        accuracy=torch.bincount(index, right, minlength=num_bins)[filled] / count,
        count=count.long(),
    )


def expected_calibration_error(prob: Tensor, target: Tensor, num_bins: int = 15) -> float | None:
    r"""The mean distance of confidence and accuracy over the bins of :func:`reliability_curve`, whose arguments it
    takes; :obj:`None` where nothing is known.
    """
    return reliability_curve(prob, target, num_bins).expected_error


def fit_temperature(logits: Tensor, target: Tensor) -> float:
    r"""The temperature of a network, fitted to labelled images.

    .. math::
        \tau = \arg\min_\tau -\sum_i \sum_l t_i^l \log \mathrm{softmax}^l(\mathbf{f}_i / \tau),

    where :math:`t` are the labels, softened as Platt (1999) does (see
    :func:`~tg_crepe.inference.soft_labels.calibrate`): a network that has all labelled images right would else ask for
    :math:`\tau = 0`. Findings have a sigmoid instead of the softmax.

    Args:
        logits (torch.Tensor): The output of the network, of shape :obj:`[num_images, num_classes]`.
        target (torch.Tensor): Classes, long of shape :obj:`[num_images]`, or findings 0/1 of the shape of ``logits``.
            What is negative (or NaN) is left out.

    Returns:
        float: A number in [0.001, 100]; 1 where nothing is known.
    """
    _check_pair("logits", logits, target)
    multi_label = target.dim() == 2
    known = target >= 0
    if not bool(known.any()):
        return 1.0
    if multi_label:
        sign = torch.where(known, torch.where(target == 1, 1, -1), 0)
    else:
        columns = torch.arange(logits.size(1), device=target.device)
        sign = torch.where(target.unsqueeze(1) == columns, 1, -1)
        known = known.unsqueeze(1).expand_as(sign)
    return 1 / fit_sharpness(logits.detach().double(), sign, known, multi_label)


def _check_pair(name: str, score: Tensor, target: Tensor) -> None:
    """Raise unless there is a row of finite scores for every target, and a column for every class."""
    check_tensor(name, score)
    check_tensor("target", target)
    if score.dim() != 2 or not bool(torch.isfinite(score).all()):
        got = f"shape {list(score.shape)}" if score.dim() != 2 else "NaN or infinity"
        raise ValueError(f"'{name}' must be finite of shape [num_images, num_classes], got {got}")
    expected = list(score.shape) if target.dim() == 2 else [score.size(0)]
    if list(target.shape) != expected:
        raise ValueError(f"'target' must be of shape {expected}, that of '{name}', got {list(target.shape)}")
    if target.dim() == 1 and bool((target >= score.size(1)).any()):
        raise ValueError(f"'target' must be below the {score.size(1)} columns of '{name}', got {int(target.max())}")
