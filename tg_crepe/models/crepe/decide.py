from __future__ import annotations

from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import safe_divide
from tg_crepe.models.crepe.start import rms_value
from tg_crepe.typing import OptTensor


def decide(
    u: Tensor, graph: CanonicalGraph, size: Tensor, volume: OptTensor, multi_label: bool, shrinkage: float
) -> Tensor:
    r"""The scores that decide (eq. `final_out`).

    .. math::
        \hat{l}(x) = \arg\max_l u^l(x) \text{ (the paper)}, \qquad
        \hat{l} = \arg\max_l \left( s\, (v^l - \bar v^l) + \pi_l \right), \quad v = u/d,

    with :math:`v` scaled to the size that it had at the start. Every :math:`u^l` has
    :math:`\langle u^l, d \rangle = 0`: the mean of :math:`v^l` is zero where a node counts :math:`d^2`, and that over
    the nodes, :math:`\bar v^l`, is not where there are hubs. What is added back, the class volumes :math:`\pi`, are
    shares of the nodes, so it is :math:`\bar v` that they take the place of. A finding's score is
    :math:`v - \bar v + \pi - \frac{1}{2}`.

    Args:
        u (torch.Tensor): The end of the flow, of shape :obj:`[num_nodes, num_classes]`.
        graph (CanonicalGraph): The graph of the flow.
        size (torch.Tensor): :func:`~tg_crepe.models.crepe.start.rms_value` of the start.
        volume (torch.Tensor, optional): :math:`\pi`, of shape :obj:`[num_classes]`. Without volumes :math:`v` decides
            as it is: the paper's :math:`\arg\max_l u^l`.
        multi_label (bool): Whether the columns are findings.
        shrinkage (float): :math:`s`.

    Returns:
        torch.Tensor: In double precision, of the shape of ``u``.
    """
    now = rms_value(u, graph)
    scale = safe_divide(size, now)
    v = (u.double() / graph.degree.double().unsqueeze(-1)).mul_(scale)
    if volume is None:
        return v
    v -= graph.communicator.sum(v.sum(dim=0)) / graph.total_nodes
    return v + volume - 0.5 if multi_label else shrinkage * v + volume
