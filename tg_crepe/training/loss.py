from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe._checks import check_positive, first_indices
from tg_crepe.training.class_weights import ClassWeights
from tg_crepe.typing import OptTensor


class LossSettings(Protocol):
    """The settings that the loss of an epoch depends on, those of either trainer."""

    @property
    def class_weight(self) -> bool:
        """Whether rare classes weigh more."""

    @property
    def soft_targets(self) -> bool:
        """Whether pseudo-labels are probabilities."""

    @property
    def pseudo_weight(self) -> float:
        """How much pseudo-labels weigh."""


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

    @classmethod
    def from_data(cls, data: Data, config: LossSettings) -> HybridLoss:
        r"""The loss of an epoch, with the class weights of its labels and pseudo-labels.

        Args:
            data (Data): The state of the epoch: :obj:`y`, :obj:`train_mask`, :obj:`num_classes` (of exclusive classes)
                and, where there are any, the pseudo-labels.
            config (TrainingConfig or GraphTrainingConfig): The settings.
        """
        multi_label, has_pseudo = data.y.dim() == 2, "pseudo_y" in data
        num_classes = data.y.size(1) if multi_label else data.num_classes
        if not config.class_weight:
            equal = ClassWeights(torch.ones((2, num_classes) if multi_label else (num_classes,)))
            return cls(equal, equal if has_pseudo else None, config.pseudo_weight)
        weight = ClassWeights.from_labels(data.y[data.train_mask], num_classes)
        if not has_pseudo:
            return cls(weight)
        chosen = data.pseudo_mask
        if config.soft_targets:  # hard ones would hide how much of a rare class is in soft ones
            pseudo = ClassWeights.from_soft_labels(data.pseudo_prob[chosen], multi_label)
        else:
            pseudo = ClassWeights.from_labels(data.pseudo_y[chosen], num_classes)
        return cls(weight, pseudo, config.pseudo_weight)

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


def _divisor(name: str, value: float | None, target: Tensor) -> float:
    """What the mean divides by; a part without images is 0 and not 0/0."""
    if value is None:
        return max(target.size(0), 1)
    if target.size(0):
        check_positive(name, value)
    return value if value > 0 else 1


def _check_certainty(certainty: Tensor, pseudo_y: Tensor) -> None:
    """Raise unless there is a certainty in [0, 1] for every pseudo-label."""
    if list(certainty.shape) != [pseudo_y.size(0)]:
        raise ValueError(f"'certainty' must be of shape [{pseudo_y.size(0)}], got {list(certainty.shape)}")
    bad = ~((certainty >= 0) & (certainty <= 1))  # so that NaN counts as bad
    if bool(bad.any()):
        raise ValueError(f"'certainty' must be in [0, 1], got other values at {first_indices(bad)}")
