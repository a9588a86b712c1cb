from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe._checks import check_count, check_tensor, first_indices


@dataclass(frozen=True, eq=False)
class ClassWeights:
    r"""The weights of the classes against their imbalance.

    .. math::
        \beta_k = \frac{1 / c_k}{\frac{1}{K} \sum_{j : c_j > 0} 1 / c_j} \text{ where } c_k > 0, \qquad \beta_k = 0
        \text{ where } c_k = 0,

    where :math:`c_k` is the number of labels of class :math:`k`, at least 1 where there are any, and :math:`K` the
    number of classes with any: the mean over these is 1, and no weight exceeds :math:`K`. A finding of multi-label data
    is two classes, absent and present, with a pair of weights of its own.

    Args:
        weight (torch.Tensor): :math:`\beta` of shape :obj:`[num_classes]`, or :obj:`[2, num_classes]` (absent, present)
            for findings.
    """

    weight: Tensor

    @classmethod
    def from_labels(cls, y: Tensor, num_classes: int | None = None) -> ClassWeights:
        r"""Counts labels.

        Args:
            y (torch.Tensor): Classes, long of shape :obj:`[num_labels]`, or findings 0/1 of shape
                :obj:`[num_labels, num_classes]`. What is negative (or NaN) is unknown and not counted.
            num_classes (int, optional): The number of classes; needed for classes. (default: :obj:`None`)
        """
        check_tensor("y", y)
        if y.dim() == 2:
            return cls(_inverse_counts(torch.stack([(y == 0).sum(dim=0), (y == 1).sum(dim=0)])))
        if num_classes is None:
            raise ValueError("'num_classes' must be given with class ids, got None")
        check_count("num_classes", num_classes)
        _check_classes("y", y, num_classes)
        return cls(_inverse_counts(torch.bincount(y[y >= 0], minlength=num_classes)))

    @classmethod
    def from_soft_labels(cls, prob: Tensor, multi_label: bool) -> ClassWeights:
        r"""Adds up soft labels, :math:`c_k = \sum_i p_i^k`: a finding that is nowhere probable still has a share.

        Less than half a label is none: a class that nothing speaks for must not outweigh the others.

        Args:
            prob (torch.Tensor): Probabilities, of shape :obj:`[num_labels, num_classes]`. What is negative (or NaN) is
                unknown and not counted.
            multi_label (bool): Whether the columns are findings on their own.
        """
        check_tensor("prob", prob)
        if prob.dim() != 2 or not prob.is_floating_point():
            raise ValueError(
                f"'prob' must be probabilities, one column per class, got {prob.dtype} of shape {list(prob.shape)}"
            )
        known = (prob >= 0).double()
        share = torch.where(prob >= 0, prob, 0).double()
        count = torch.stack([(known - share).sum(dim=0), share.sum(dim=0)]) if multi_label else share.sum(dim=0)
        return cls(_inverse_counts(torch.where(count < 0.5, 0.0, count)))

    @property
    def num_classes(self) -> int:
        """The number of classes or findings."""
        return self.weight.size(-1)

    @property
    def multi_label(self) -> bool:
        """Whether the columns are findings on their own."""
        return self.weight.dim() == 2

    def weigh(self, target: Tensor) -> Tensor:
        r"""Targets times class weights, in the form that :func:`weighted_loss` takes.

        Args:
            target (torch.Tensor): Classes, long of shape :obj:`[batch_size]`, or soft labels of shape
                :obj:`[batch_size, num_classes]`; for findings hard or soft labels of that shape. What is negative (or
                NaN) is unknown and weighs nothing.

        Returns:
            torch.Tensor: :math:`\beta_k t_k` of shape :obj:`[batch_size, num_classes]`; for findings
            :obj:`[batch_size, 2, num_classes]`, divided by the number of known findings of the image.
        """
        check_tensor("target", target)
        hard = target.dim() == 1 and not self.multi_label
        if hard:
            _check_classes("target", target, self.num_classes)
            target = F.one_hot(target.clamp(min=0), self.num_classes) * (target >= 0).unsqueeze(1)
        elif target.dim() != 2 or target.size(1) != self.num_classes:
            raise ValueError(
                f"'target' must have {self.num_classes} columns, one per class, got shape {list(target.shape)}"
            )
        known = target >= 0
        share = torch.where(known, target, 0).to(self.weight.dtype)
        if not self.multi_label:
            return share * self.weight
        sides = torch.stack([1 - share, share], dim=1) * self.weight
        known = known.unsqueeze(1)
        return sides * known / known.sum(dim=2, keepdim=True).clamp(min=1)


def _inverse_counts(count: Tensor) -> Tensor:
    """One over the counts along the first dimension, at mean 1 over those that are not 0."""
    present = count > 0
    inverse = torch.where(present, 1 / count.clamp(min=1).double(), 0.0)
    mean = inverse.sum(dim=0) / present.sum(dim=0).clamp(min=1)
    return (inverse / torch.where(mean > 0, mean, 1.0)).float()


def _check_classes(name: str, y: Tensor, num_classes: int) -> None:
    """Raise unless ``y`` is a vector of class ids, negative where unknown."""
    if y.dim() != 1 or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(f"'{name}' must be a vector of class ids, got {y.dtype} of shape {list(y.shape)}")
    bad = y >= num_classes
    if bool(bad.any()):
        raise ValueError(f"'{name}' must be below num_classes = {num_classes}, got more at {first_indices(bad)}")
