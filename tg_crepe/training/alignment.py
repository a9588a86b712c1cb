from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe.graph.reductions import safe_divide
from tg_crepe.inference.soft_labels import certainty

#: Rounds after which the class multipliers are taken as they are; a few tens are enough unless a class is missing.
_ROUNDS = 100


def align_classes(prob: Tensor, share: Tensor) -> Tensor:
    r"""Moves soft labels to a class distribution.

    .. math::
        \tilde{p}_i^l = \frac{b_l p_i^l}{\sum_k b_k p_i^k}, \qquad \frac{1}{n} \sum_i \tilde{p}_i^l = \pi_l,

    where :math:`\pi` is the wanted distribution and the multipliers :math:`b` come from alternating scaling
    (Sinkhorn); `"ReMixMatch" <https://arxiv.org/abs/1911.09785>`_ calls one round of it distribution alignment.

    Args:
        prob (torch.Tensor): Probabilities, of shape :obj:`[num_images, num_classes]`.
        share (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`, summing to 1.

    Returns:
        torch.Tensor: Probabilities of the same shape; a row that only classes without a share explain stays as it is.
    """
    wanted = share.double()
    scaled = prob.double()
    for _ in range(_ROUNDS if prob.size(0) else 0):
        mean = scaled.mean(dim=0)
        factor = safe_divide(wanted, mean, 1.0)
        moved = scaled * factor
        total = moved.sum(dim=1, keepdim=True)
        scaled = safe_divide(moved, total, scaled)
        if float((factor - 1).abs().max()) < 1e-6:
            break
    return scaled.to(prob.dtype)


def align_labels(data: Data) -> None:
    """Moves the soft and hard pseudo-labels of unlabelled images to the class distribution of the labels."""
    share = torch.bincount(data.y[data.train_mask], minlength=data.num_classes).double()
    set_soft_labels(data, align_classes(data.pseudo_prob[data.pseudo_mask], share / share.sum()))
    data.pseudo_y = torch.where(data.pseudo_mask, data.pseudo_prob.argmax(dim=1), data.pseudo_y)


def set_soft_labels(data: Data, prob: Tensor) -> None:
    """Gives the images with a pseudo-label other probabilities, and the certainty that follows."""
    # Copies: what the source gave may be part of its own answer too.
    data.pseudo_prob, data.certainty = data.pseudo_prob.clone(), data.certainty.clone()
    data.pseudo_prob[data.pseudo_mask] = prob.to(data.pseudo_prob.dtype)
    data.certainty[data.pseudo_mask] = certainty(prob, multi_label=False).to(data.certainty.dtype)
