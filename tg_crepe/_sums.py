"""Sums in double precision without a copy of their arguments in double precision, the same for every thread count.

Torch converts a whole tensor before it reduces it in another type; in slices the converted numbers stay in the cache.
A slice is shorter than what torch shares among threads (32,768 numbers), so the order of its sum is always the same;
dot products are not used, because the libraries behind them cut by threads as well.
Where several processes hold a part of the rows each, ``over`` is what adds up their sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tg_crepe.graph.communicator import ALONE, Communicator

#: Numbers that are converted at a time.
_SLICE = (1 << 15) - 1


def inner(a: Tensor, b: Tensor, over: Communicator = ALONE) -> Tensor:
    r""":math:`\langle a, b \rangle` of two tensors of the same shape, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for x, y in _rows(a, b):
        total += (x.double() * y.double()).sum()
    return over.sum(total)


def norm(a: Tensor, over: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_2`, a scalar in double precision."""
    return inner(a, a, over).sqrt()


def squared_distance(a: Tensor, b: Tensor, over: Communicator = ALONE) -> Tensor:
    r""":math:`\|a - b\|^2` of two tensors of the same shape, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for x, y in _rows(a, b):
        total += (x.double() - y.double()).square_().sum()
    return over.sum(total)


def absolute_sum(a: Tensor, over: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_1`, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for (x,) in _rows(a):
        total += x.abs().double().sum()
    return over.sum(total)


def weighted_sum(mass: Tensor, x: Tensor, over: Communicator = ALONE) -> Tensor:
    r""":math:`\sum_i m_i x_i` of every column of ``x``, of shape :obj:`[num_columns]` in double precision."""
    total = x.new_zeros(x.size(1), dtype=torch.float64)
    for m, part in _rows(mass, x, width=x.size(1)):
        total += (m.double().unsqueeze(1) * part.double()).sum(dim=0)
    return over.sum(total)


def _rows(*tensors: Tensor, width: int | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of all tensors, about a slice at a time."""
    if width is None:
        width = tensors[0][:1].numel()
    step = max(1, _SLICE // max(width, 1))
    return zip(*(tensor.split(step) for tensor in tensors), strict=True)
