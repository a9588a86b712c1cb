from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe._checks import check_count, check_positive, check_tensor, first_indices
from tg_crepe.typing import OptTensor


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
                f"'prob' must be probabilities, one column a class, got {prob.dtype} of shape {list(prob.shape)}"
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
                f"'target' must have {self.num_classes} columns, one a class, got shape {list(target.shape)}"
            )
        known = target >= 0
        share = torch.where(known, target, 0).to(self.weight.dtype)
        if not self.multi_label:
            return share * self.weight
        sides = torch.stack([1 - share, share], dim=1) * self.weight
        known = known.unsqueeze(1)
        return sides * known / known.sum(dim=2, keepdim=True).clamp(min=1)


def weighted_loss(logits: Tensor, weighted_target: Tensor) -> Tensor:
    r"""The cross-entropy of every image, linear in its weighted target :math:`m`.

    .. math::
        \ell = -\sum_k m_k \log \mathrm{softmax}_k(\mathbf{f}), \qquad
        \ell = -\sum_k m_k^{(1)} \log \sigma(f_k) + m_k^{(0)} \log \sigma(-f_k)

    for classes and for findings.

    Args:
        logits (torch.Tensor): The output :math:`\mathbf{f}` of the network, of shape :obj:`[batch_size, num_classes]`.
        weighted_target (torch.Tensor): Targets times weights, of that shape, or :obj:`[batch_size, 2, num_classes]`
            (absent, present) for findings.

    Returns:
        torch.Tensor: The losses, of shape :obj:`[batch_size]`.
    """
    expected = [weighted_target.size(0), weighted_target.size(-1)]
    if list(logits.shape) != expected:
        raise ValueError(f"'logits' must be of shape {expected}, that of the targets, got {list(logits.shape)}")
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # mixed precision ends at the loss
    if weighted_target.dim() == 2:
        return -(weighted_target * F.log_softmax(logits, dim=1)).sum(dim=1)
    absent, present = weighted_target.unbind(dim=1)
    return -(absent * F.logsigmoid(-logits) + present * F.logsigmoid(logits)).sum(dim=1)


@dataclass(frozen=True)
class HybridLoss:
    r"""The loss of the hybrid framework.

    .. math::
        \frac{1}{|B_l|} \sum_{i \in B_l} \beta_{y_i} \mathrm{CE}(f(x_i), y_i) + \frac{\gamma}{|B_u|}
        \sum_{i \in B_u} \hat{\beta}_{\hat{y}_i} \varphi_i \mathrm{CE}(f(x_i), \hat{y}_i),

    where :math:`B_l` and :math:`B_u` are the labelled and the pseudo-labelled images of a batch, :math:`\beta` and
    :math:`\hat{\beta}` the class weights of either kind, :math:`\varphi` the certainty of a pseudo-label and
    :math:`\hat{y}` hard or soft. A part without images is 0.

    .. code-block:: python

        loss = HybridLoss(ClassWeights.from_labels(y[mask], 10), ClassWeights.from_labels(pseudo_y[pseudo_mask], 10))
        target = loss.targets(y[i], pseudo_y[j], certainty[j])  # images i are labelled, j pseudo-labelled
        loss(model(torch.cat([images[i], images[j]])), target).backward()

    Args:
        class_weight (ClassWeights): :math:`\beta` of the labels.
        pseudo_class_weight (ClassWeights, optional): :math:`\hat{\beta}` of the pseudo-labels.
            (default: :obj:`None`, where there are none)
        pseudo_weight (float, optional): :math:`\gamma`. (default: :obj:`1.0`)
    """

    class_weight: ClassWeights
    pseudo_class_weight: ClassWeights | None = None
    pseudo_weight: float = 1.0

    def __post_init__(self) -> None:
        check_positive("pseudo_weight", self.pseudo_weight)

    def targets(
        self,
        y: Tensor,
        pseudo_y: OptTensor = None,
        certainty: OptTensor = None,
        labelled_divisor: float | None = None,
        pseudo_divisor: float | None = None,
    ) -> Tensor:
        r"""Everything of the loss but the network's output: targets times all weights, labelled images first.

        Args:
            y (torch.Tensor): Labels of the labelled images, as :meth:`ClassWeights.weigh` takes them.
            pseudo_y (torch.Tensor, optional): Pseudo-labels, hard or soft. (default: :obj:`None`)
            certainty (torch.Tensor, optional): Their :math:`\varphi` in [0, 1], of shape :obj:`[num_pseudo]`.
                (default: :obj:`None`, 1)
            labelled_divisor (float, optional): What the sum over labelled images is divided by, where the batch is
                split over processes (see :class:`~tg_crepe.training.MixedBatch`).
                (default: :obj:`None`, their number)
            pseudo_divisor (float, optional): The same for pseudo-labelled images. (default: :obj:`None`, their number)
        """
        target = self.class_weight.weigh(y) / _divisor("labelled_divisor", labelled_divisor, y)
        if pseudo_y is None:
            return target
        if self.pseudo_class_weight is None:
            raise ValueError("'pseudo_y' must be None where the loss has no 'pseudo_class_weight', got pseudo-labels")
        pseudo = self.pseudo_class_weight.weigh(pseudo_y)
        if certainty is not None:
            _check_certainty(certainty, pseudo_y)
            pseudo = pseudo * certainty.to(pseudo.dtype).view(-1, *[1] * (pseudo.dim() - 1))
        pseudo = pseudo * (self.pseudo_weight / _divisor("pseudo_divisor", pseudo_divisor, pseudo_y))
        return torch.cat([target, pseudo])

    def __call__(self, logits: Tensor, weighted_target: Tensor) -> Tensor:
        """The loss of a batch, from logits of shape :obj:`[batch_size, num_classes]` and :meth:`targets`."""
        return weighted_loss(logits, weighted_target).sum()


def _inverse_counts(count: Tensor) -> Tensor:
    """One over the counts along the first dimension, at mean 1 over those that are not 0."""
    present = count > 0
    inverse = torch.where(present, 1 / count.clamp(min=1).double(), 0.0)
    mean = inverse.sum(dim=0) / present.sum(dim=0).clamp(min=1)
    return (inverse / torch.where(mean > 0, mean, 1.0)).float()


def _divisor(name: str, value: float | None, target: Tensor) -> float:
    """What the mean divides by; a part without images is 0 and not 0/0."""
    if value is None:
        return max(target.size(0), 1)
    if target.size(0):
        check_positive(name, value)
    return value if value > 0 else 1


def _check_classes(name: str, y: Tensor, num_classes: int) -> None:
    """Raise unless ``y`` is a vector of class ids, negative where unknown."""
    if y.dim() != 1 or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(f"'{name}' must be a vector of class ids, got {y.dtype} of shape {list(y.shape)}")
    bad = y >= num_classes
    if bool(bad.any()):
        raise ValueError(f"'{name}' must be below num_classes = {num_classes}, got more at {first_indices(bad)}")


def _check_certainty(certainty: Tensor, pseudo_y: Tensor) -> None:
    """Raise unless there is a certainty in [0, 1] for every pseudo-label."""
    if list(certainty.shape) != [pseudo_y.size(0)]:
        raise ValueError(f"'certainty' must be of shape [{pseudo_y.size(0)}], got {list(certainty.shape)}")
    bad = ~((certainty >= 0) & (certainty <= 1))  # so that NaN counts as bad
    if bool(bad.any()):
        raise ValueError(f"'certainty' must be in [0, 1], got other values at {first_indices(bad)}")
