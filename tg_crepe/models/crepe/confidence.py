from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.inference.pool import log_opinion


def share_doubt(pooled: Tensor, others: Tensor | float, diffused: Tensor) -> Tensor:
    r"""How sure the pooled labels are, with a word of the diffusion that the flow began with.

    .. math::
        \log P_i, \qquad P_i = \frac{1}{2} \left( \mathrm{softmax}(\mathbf{s}_i) + \mathrm{softmax}(\log \mathbf{f}_i +
        \mathbf{o}_i) \right),

    where :math:`\mathbf{s}` are the pooled scores, :math:`\mathbf{o}` what opinions other than the flow put into them,
    and :math:`\mathbf{f}` what the diffusion says in the flow's place. The flow is a cut: its scores are nearly the
    same all over a class, and say which class a node has but hardly how near it is to the border. The diffusion falls
    off from the labels, but takes others for the largest class. So the label stays the one of
    :math:`\mathbf{s}`: where :math:`P` has its largest share elsewhere, the two shares change places.

    Args:
        pooled (torch.Tensor): :math:`\mathbf{s}`, in double precision, of shape :obj:`[num_nodes, num_classes]`.
        others (torch.Tensor or float): :math:`\mathbf{o}`, of the same shape, or 0 where there is none.
        diffused (torch.Tensor): :math:`\mathbf{f}`, rows that sum to one, of the same shape.

    Returns:
        torch.Tensor: :math:`\log P` in double precision, of shape :obj:`[num_nodes, num_classes]`.
    """
    prob = 0.5 * (torch.softmax(pooled, dim=1) + torch.softmax(log_opinion(diffused) + others, dim=1))
    label, top = pooled.argmax(dim=1, keepdim=True), prob.argmax(dim=1, keepdim=True)
    largest, own = prob.gather(1, top), prob.gather(1, label)
    return prob.scatter(1, top, own).scatter(1, label, largest).log()
