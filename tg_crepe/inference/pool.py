"""Several soft labels of the same nodes made into one, as far as labels that were left out trust each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

#: Newton steps at most, and the change of an exponent at which they end: several processes, which add up in another
#: order, must find the same.
_STEPS, _PRECISION = 50, 1e-12

#: The least exponent of an opinion of which one is expected: labels that contradict it leave it no certainty, but its
#: labels, which are better than none.
_LEAST = 0.01

#: Numbers of single rows that are taken at a time.
_NUMBERS_AT_A_TIME = 1 << 17

#: What an opinion leaves to all classes alike: one that knows nothing of a class must not rule it out.
_OPEN = 1e-3


def log_opinion(prob: Tensor) -> Tensor:
    r"""The logarithm of soft labels that rule nothing out, :math:`\log((1 - \epsilon) P + \epsilon / L)` with
    :math:`\epsilon = 10^{-3}`, of the shape of ``prob``, classes last."""
    return torch.log((1 - _OPEN) * prob + _OPEN / prob.size(-1))


def by_rows(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """What a function of single rows makes of the same rows of tensors, some of them at a time: what it makes on its
    way stays in the cache, and no array of that size is needed."""
    rows = max(1, _NUMBERS_AT_A_TIME // tensors[0][:1].numel()) if tensors[0].numel() else 1
    if tensors[0].size(0) <= rows:
        return function(*tensors)
    parts = zip(*(x.split(rows) for x in tensors), strict=True)
    first = function(*next(parts))
    found = first.new_empty(tensors[0].size(0), *first.shape[1:])
    found[:rows] = first
    for number, part in enumerate(parts, start=1):
        found[number * rows : (number + 1) * rows] = function(*part)
    return found


def trust_opinions(
    opinion: Tensor, y: Tensor, worth: Tensor, expected: Sequence[float], labels: Sequence[float]
) -> Tensor:
    r"""The exponents of a logarithmic opinion pool, fitted to labels that none of the opinions knew.

    .. math::
        P_i \propto \prod_k P_{ik}^{w_k}, \qquad
        w = \arg\min_{w_k \geq 0.01 m_k} \; -\sum_i a_i \log P_i^{y_i} + \sum_k \frac{\lambda_k}{2} (w_k - m_k)^2,

    where :math:`P_{ik}` is the :math:`k`-th opinion of the :math:`i`-th label and :math:`a_i` what the label is worth.
    An opinion of which one is expected (:math:`m_k = 1`) has the word until about :math:`\lambda` labels speak for
    others; how sure it is, its exponent, a few labels may say: were they held back as much, an opinion that is just as
    right and surer would take its place. The problem is convex; Newton's method on the exponents that are not held at
    their bounds solves it to the last digits.

    Args:
        opinion (torch.Tensor): :math:`\log P_{ik}`, in double precision, of shape
            :obj:`[num_opinions, num_judged, num_classes]`.
        y (torch.Tensor): The classes :math:`y_i`, of shape :obj:`[num_judged]`.
        worth (torch.Tensor): :math:`a_i`, of shape :obj:`[num_judged]`.
        expected (sequence of float): :math:`m`, the exponents without a label.
        labels (sequence of float): :math:`\lambda`, positive: about how many labels it takes to move each.

    Returns:
        torch.Tensor: :math:`w`, in double precision, of shape :obj:`[num_opinions]`.
    """
    num_opinions = opinion.size(0)
    own = opinion.gather(2, y.expand(num_opinions, -1).unsqueeze(-1)).squeeze(-1)
    first, weight = opinion.new_tensor(expected), opinion.new_tensor(labels)
    least = _LEAST * first

    def loss(w: Tensor) -> float:
        fit = torch.tensordot(w, opinion, 1).logsumexp(dim=1) - w @ own
        return float(worth @ fit + weight @ (w - first).square() / 2)

    w = first
    for _ in range(_STEPS):
        prob = torch.softmax(torch.tensordot(w, opinion, 1), dim=1)
        mean = (prob * opinion).sum(dim=2)
        slope = (mean - own) @ worth + weight * (w - first)
        spread = torch.einsum("i,kic,hic,ic->kh", worth, opinion, opinion, prob) - (worth * mean) @ mean.t()
        free = (w > least) | (slope < 0)  # the others are held at their bounds
        hessian = (spread + weight.diag())[free][:, free]
        step = torch.zeros_like(w)
        step[free] = -torch.linalg.solve(hessian, slope[free])
        size, here = 1.0, loss(w)
        while loss(torch.maximum(w + size * step, least)) > here and size > _PRECISION:
            size /= 2
        moved = torch.maximum(w + size * step, least)
        if float((moved - w).abs().max()) <= _PRECISION:
            break
        w = moved
    return w
