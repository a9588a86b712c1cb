from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe.models.task import LabelTask

#: Names of the class priors; a tensor of volumes may be given instead.
CLASS_PRIORS = ("labels", "uniform")

#: Labels of every class that are imagined before any is seen: few labels say little about the size of the classes.
_PSEUDO_COUNT = 5


def check_class_prior(class_prior: str | Tensor, name: str = "class_prior") -> None:
    """Raise, with the ``name`` of the argument, unless the prior is a known name or a vector of positive numbers."""
    if not isinstance(class_prior, Tensor):
        check_choice(name, class_prior, CLASS_PRIORS)
    elif class_prior.dim() != 1 or not bool((torch.isfinite(class_prior) & (class_prior > 0)).all()):
        raise ValueError(f"'{name}' must hold one number > 0 a class, got {class_prior.tolist()}")


def class_volume(task: LabelTask, class_prior: str | Tensor, name: str = "class_prior") -> Tensor:
    r"""The share :math:`\pi_l` of the nodes that class :math:`l` is expected to have.

    .. math::
        \pi_l = \frac{m_l + 5}{m + 5L} \text{ (labels)}, \qquad \pi_l = 1/L \text{ (uniform)},

    where :math:`m_l` of :math:`m` labels are of class :math:`l`. A finding is two classes, present and absent.

    Args:
        task (LabelTask): The labels.
        class_prior (str or torch.Tensor): :obj:`"labels"`, :obj:`"uniform"`, or volumes of shape
            :obj:`[total_classes]`, which are scaled to sum to one (findings: used as they are, below one).
        name (str, optional): What errors call the argument. (default: :obj:`"class_prior"`)

    Returns:
        torch.Tensor: In double precision, of shape :obj:`[num_classes]`.
    """
    positive = task.positive_count.double()
    rivals = 2 if task.multi_label else task.num_classes
    if isinstance(class_prior, Tensor):
        if class_prior.numel() != task.total_classes:
            raise ValueError(
                f"'{name}' must hold one number for each of the {task.total_classes} classes, got {class_prior.numel()}"
            )
        volume = class_prior.to(positive)[task.classes]
        if task.multi_label and bool((volume >= 1).any()):
            raise ValueError(f"'{name}' of a finding must lie below 1, got {class_prior.tolist()}")
        return volume if task.multi_label else volume / volume.sum()
    if class_prior == "uniform":
        return torch.full_like(positive, 1 / rivals)
    known = task.known_count.double()
    return (positive + _PSEUDO_COUNT) / (known + _PSEUDO_COUNT * rivals)
