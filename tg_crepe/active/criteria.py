"""How much is to be learnt from a node's label: one number per node, the larger the better."""

from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.energy.normaliser import get_normaliser
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import safe_divide
from tg_crepe.inference.soft_labels import certainty


def uncertainty(prob: Tensor, multi_label: bool) -> Tensor:
    r"""The relative entropy :math:`1 - \varphi` of every soft label, of shape :obj:`[num_nodes]`."""
    return 1 - certainty(prob.double(), multi_label)


def margin(prob: Tensor, multi_label: bool) -> Tensor:
    r"""How close the two most probable classes are, :math:`1 - (p^{(1)} - p^{(2)})`, of shape :obj:`[num_nodes]`.

    For findings, how close the most doubtful one is to a half: :math:`1 - \min_l |2 p^l - 1|`.
    """
    prob = prob.double()
    if multi_label:
        return 1 - (2 * prob - 1).abs().amin(dim=1)
    if prob.size(1) < 2:
        return torch.zeros(prob.size(0), dtype=prob.dtype, device=prob.device)
    first, second = prob.topk(2, dim=1).values.unbind(dim=1)
    return 1 - (first - second)


def ratio_change(prob: Tensor, graph: CanonicalGraph, multi_label: bool) -> Tensor:
    r"""By how much the ratio energy is expected to rise when a node's class becomes known and all else stays.

    .. math::
        \sum_c p_i^c \sum_l \frac{1}{H(d\, p^l)}
        \sum_j w_{ij} \left( |\delta_{cl} - p_j^l| - |p_i^l - p_j^l| \right),

    where :math:`\mathbf{p}` are the soft labels, :math:`d` the degree and :math:`H` the normaliser
    :obj:`"degree_quantile"` at the mean of :math:`p^l`; the change of :math:`H` is of lower order. It is large for
    doubtful nodes with many neighbours. A finding is present or absent with its own probability.

    Args:
        prob (torch.Tensor): Soft labels, of shape :obj:`[num_nodes, num_classes]`.
        graph (CanonicalGraph): The graph.
        multi_label (bool): Whether the columns are findings on their own.
    """
    if graph.num_edges == 0:
        return prob.new_zeros(graph.num_nodes, dtype=torch.float64)
    prob, degree = prob.double(), graph.degree.double()
    volume = ((degree @ prob) / degree.sum()).clamp(1e-6, 1 - 1e-6)
    size, _ = get_normaliser("degree_quantile", volume)(degree.unsqueeze(1) * prob, degree)
    share = safe_divide(1, size)
    rise = prob.new_zeros(graph.num_nodes)
    for here, there in (graph.edge_index, graph.edge_index.flip(0)):
        p, q = prob[here], prob[there]
        # Σ_c p^c |δ_cl − q^l| = p^l (1 − q^l) + (1 − p^l) q^l, for classes and for findings alike.
        expected = p * (1 - q) + (1 - p) * q - (p - q).abs()
        rise.index_add_(0, here, graph.edge_weight.double() * (expected @ share))
    return rise
