from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe.graph.metric import Placement
from tg_crepe.heads.linear import LinearHead
from tg_crepe.inference.out_of_fold import deal_folds, out_of_fold

#: Parts of the labels, each judged by a head that is trained on the others.
_FOLDS = 5


def head_evidence(x: Tensor, y: Tensor, mask: Tensor, num_classes: int, placement: Placement | None = None) -> Tensor:
    r"""What a linear model of the features says of every row: evidence for
    :meth:`~tg_crepe.EnergyModel.propagate`, out of fold where it was trained.

    Unlabelled rows have the mean of the heads without one part of the labels and of the one that knows all, labelled
    ones what the head says that did not know their label; the only label of a class is never left out, and has no
    opinion (NaN). Where no class has two labels nothing says what a head is worth: no row has an opinion.

    Args:
        x (torch.Tensor): Features, of shape :obj:`[num_nodes, num_features]`.
        y (torch.Tensor): Classes, of shape :obj:`[num_nodes]`; read where ``mask`` is :obj:`True`.
        mask (torch.Tensor): Which rows are labelled, bool of shape :obj:`[num_nodes]`.
        num_classes (int): The number of classes.
        placement (Placement, optional): Where features stand. (default: :obj:`None`, as they are)

    Returns:
        torch.Tensor: Of shape :obj:`[num_nodes, num_classes]`.
    """
    if not x.is_floating_point():
        raise ValueError(f"'x' must be of a floating type, got {x.dtype}")
    if mask.dtype != torch.bool or mask.shape != y.shape:
        raise ValueError(
            f"'mask' must be bool of shape [num_nodes] = {list(y.shape)}, got {mask.dtype} of shape {list(mask.shape)}"
        )
    y = y.long()
    target = F.one_hot(torch.where(mask, y, 0), num_classes).to(x.dtype)
    part = deal_folds(y, mask, _FOLDS, seed=0)
    if not bool((part >= 0).any()):
        return torch.full_like(target, torch.nan)
    left = [part == number for number in range(_FOLDS) if bool((part == number).any())]

    def say(known: Tensor) -> Tensor:
        return LinearHead.fit(x, target, known.to(x.dtype), placement)(x)

    prob = torch.stack([*(say(mask & ~out) for out in left), say(mask)])
    return out_of_fold(prob, part, mask)
