from __future__ import annotations

import torch
from torch import Tensor

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
        factor = torch.where(mean > 0, wanted / torch.where(mean > 0, mean, 1.0), 1.0)
        moved = scaled * factor
        total = moved.sum(dim=1, keepdim=True)
        scaled = torch.where(total > 0, moved / torch.where(total > 0, total, 1.0), scaled)
        if float((factor - 1).abs().max()) < 1e-6:
            break
    return scaled.to(prob.dtype)
