from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_tensor
from tg_crepe.graph.reductions import safe_divide

#: How a new point takes its value from its neighbours, by the power of the energy on the edges.
EXTENSIONS = ("median", "mean")

#: Numbers that are sorted at a time.
_SLICE = 1 << 22

#: The probability that counts as none where every soft label is one-hot.
_SURE = 1e-6


@torch.no_grad()
def extend(v: Tensor, neighbor: Tensor, weight: Tensor, rule: str = "median", coupled: bool = True) -> Tensor:
    r"""The values of new points: what minimises the energy there while the nodes of the graph keep theirs.

    .. math::
        \mathbf{v}(x) = \arg\min_{\mathbf{v}} \sum_j w_{xj} |\mathbf{v} - \mathbf{v}_j|^p
        = \begin{cases}
            \text{the } w\text{-weighted median of } \mathbf{v}_j, & p = 1, \\
            \sum_j w_{xj} \mathbf{v}_j / \sum_j w_{xj}, & p = 2,
        \end{cases}

    for every class on its own, then with the mean over the classes removed (:math:`\sum_l v^l = 0`). Where the weights
    split evenly the median is the middle of the two values that divide them. A point whose weights are all zero
    belongs nowhere and gets zero.

    Args:
        v (torch.Tensor): The values of the nodes (:math:`u/d` of CREPE, or any increasing affine function of them for
            every class), of shape :obj:`[num_nodes, num_classes]`.
        neighbor (torch.Tensor): Nodes next to every new point, of shape :obj:`[num_points, k]`.
        weight (torch.Tensor): The weights of these edges, not negative, of shape :obj:`[num_points, k]`.
        rule (str, optional): :obj:`"median"` or :obj:`"mean"`. (default: :obj:`"median"`)
        coupled (bool, optional): Whether the classes exclude each other, so that their mean is removed; findings do
            not. (default: :obj:`True`)

    Returns:
        torch.Tensor: Of shape :obj:`[num_points, num_classes]`.
    """
    check_choice("rule", rule, EXTENSIONS)
    _check_neighbors(check_tensor("v", v), check_tensor("neighbor", neighbor), check_tensor("weight", weight))
    reduce = _median if rule == "median" else _mean
    step = max(1, _SLICE // max(1, neighbor.size(1) * v.size(1)))
    parts = [reduce(v[nodes], w.to(v.dtype)) for nodes, w in zip(neighbor.split(step), weight.split(step), strict=True)]
    value = torch.cat(parts) if parts else v[:0]
    return value - value.mean(dim=1, keepdim=True) if coupled else value


def _check_neighbors(v: Tensor, neighbor: Tensor, weight: Tensor) -> None:
    """Shapes that fit together, nodes that exist and weights that are numbers from zero on."""
    if v.dim() != 2:
        raise ValueError(f"'v' must be of shape [num_nodes, num_classes], got {list(v.shape)}")
    if neighbor.dim() != 2 or neighbor.shape != weight.shape or neighbor.size(1) == 0:
        raise ValueError(
            "'neighbor' and 'weight' must be of the same shape [num_points, k], "
            f"got {list(neighbor.shape)} and {list(weight.shape)}"
        )
    if neighbor.numel() and not 0 <= int(neighbor.min()) <= int(neighbor.max()) < v.size(0):
        raise ValueError(f"'neighbor' must lie in [0, num_nodes - 1] = [0, {v.size(0) - 1}], got others")
    if not bool((torch.isfinite(weight) & (weight >= 0)).all()):
        raise ValueError("'weight' must be finite and not negative, got others")


def _median(value: Tensor, weight: Tensor) -> Tensor:
    """The weighted median over the second dimension of ``value``, of shape ``[num_points, k, num_classes]``."""
    value, order = value.sort(dim=1)
    mass = weight.unsqueeze(-1).expand_as(value).gather(1, order).double().cumsum(dim=1)
    total = mass[:, -1:]
    half = total / 2
    # Counts are compared with a little slack: the sums of an even split differ in their last bits.
    slack = 1e-9 * total
    low = (mass < half - slack).sum(dim=1, keepdim=True).clamp(max=value.size(1) - 1)
    high = (mass <= half + slack).sum(dim=1, keepdim=True).clamp(max=value.size(1) - 1)
    middle = ((value.gather(1, low) + value.gather(1, high)) / 2).squeeze(1)
    return torch.where(total.squeeze(1) > 0, middle, 0)


def _mean(value: Tensor, weight: Tensor) -> Tensor:
    """The weighted mean over the second dimension."""
    total = weight.sum(dim=1, keepdim=True)
    share = safe_divide(weight, total)
    return torch.einsum("pk,pkc->pc", share, value)


def extend_soft_labels(prob: Tensor, neighbor: Tensor, weight: Tensor, rule: str = "median") -> Tensor:
    r"""The soft labels of new points from those of the nodes.

    The soft labels of a model are a softmax of its scores, so :math:`\log \mathbf{p}` is, up to a constant per row, an
    increasing affine function of :math:`\mathbf{v}` for every class, and its median is that of :math:`\mathbf{v}`.
    Where the energy is quadratic, the mean of :math:`\mathbf{p}` itself is taken, as scikit-learn's label propagation
    does. A labelled node counts with the smallest and largest score of all nodes, since its soft label is one-hot.

    Args:
        prob (torch.Tensor): Soft labels of exclusive classes, of shape :obj:`[num_nodes, num_classes]`.
        neighbor (torch.Tensor): Nodes next to every new point, of shape :obj:`[num_points, k]`.
        weight (torch.Tensor): The weights of these edges, of shape :obj:`[num_points, k]`.
        rule (str, optional): :obj:`"median"` or :obj:`"mean"`. (default: :obj:`"median"`)

    Returns:
        torch.Tensor: In double precision, of shape :obj:`[num_points, num_classes]`.
    """
    prob = prob.double()
    if rule == "mean":
        mean = extend(prob, neighbor, weight, "mean", coupled=False)
        total = mean.sum(dim=1, keepdim=True)
        return safe_divide(mean, total, 1 / prob.size(1))
    between = prob[(prob > 0) & (prob < 1)]
    score = prob.clamp(min=float(between.min()) if between.numel() else _SURE).log()
    return torch.softmax(extend(score - score.mean(dim=1, keepdim=True), neighbor, weight, rule), dim=1)
