"""Sums and quantiles over the nodes of a graph: in double precision, the same for every thread count and on every rank.

A sum makes no copy of its arguments in double precision.

Torch converts a whole tensor before it reduces it in another type; in slices the converted numbers stay in the cache.
A slice is shorter than what torch shares among threads (32,768 numbers), so the order of its sum is always the same;
dot products are not used, because the libraries behind them cut by threads as well.
Where several processes hold a part of the rows each, ``communicator`` is what adds up their sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk
from tg_crepe.graph.communicator import ALONE, Communicator

#: Bits of a number that a round of :func:`shared_quantile` settles.
_BITS = 8

#: Products that one thread adds up at a time, whatever their number.
_DOTS_PER_CHUNK = 1 << 18

#: Numbers that are converted at a time.
_SLICE = (1 << 15) - 1


def inner(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\langle a, b \rangle` of two tensors of the same shape, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for x, y in _rows(a, b):
        total += (x.double() * y.double()).sum()
    return communicator.sum(total)


def norm(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_2`, a scalar in double precision."""
    return inner(a, a, communicator).sqrt()


def squared_distance(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a - b\|^2` of two tensors of the same shape, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for x, y in _rows(a, b):
        total += (x.double() - y.double()).square_().sum()
    return communicator.sum(total)


def plain_sum(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\sum_i a_i` over all entries, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for (x,) in _rows(a):
        total += x.double().sum()
    return communicator.sum(total)


def absolute_sum(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_1`, a scalar in double precision."""
    total = a.new_zeros((), dtype=torch.float64)
    for (x,) in _rows(a):
        total += x.abs().double().sum()
    return communicator.sum(total)


def weighted_sum(mass: Tensor, x: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\sum_i m_i x_i` of every column of ``x``, of shape :obj:`[num_columns]` in double precision."""
    total = x.new_zeros(x.size(1), dtype=torch.float64)
    for m, part in _rows(mass, x, width=x.size(1)):
        total += (m.double().unsqueeze(1) * part.double()).sum(dim=0)
    return communicator.sum(total)


def column_dots(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\langle a^l, b^l \rangle` of every column of two matrices, of shape :obj:`[num_columns]` in double
    precision."""
    compiled = a.device.type == "cpu" and a.dtype == b.dtype and a.dtype.is_floating_point and available("numba")
    if not compiled or not a.numel():
        return communicator.sum((a * b).sum(dim=0, dtype=torch.float64))
    from tg_crepe.graph.product_kernel import dot_columns

    rows, columns = a.shape
    step = max(1, _DOTS_PER_CHUNK // columns)
    found = np.zeros((-(-rows // step), columns))
    one, other = (x.detach().contiguous().view(-1).numpy() for x in (a, b))

    def work(chunk: int) -> None:
        dot_columns(chunk * step, min((chunk + 1) * step, rows), one, other, found[chunk])

    for_each_chunk(work, len(found))
    return communicator.sum(torch.from_numpy(found.sum(axis=0)))


def safe_divide(x: Tensor | float, by: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    """``x / by`` where ``by`` is positive, and ``otherwise`` elsewhere."""
    positive = by > 0
    return torch.where(positive, x / torch.where(positive, by, 1.0), otherwise)


def _rows(*tensors: Tensor, width: int | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of all tensors, about a slice at a time."""
    if width is None:
        width = tensors[0][:1].numel()
    step = max(1, _SLICE // max(width, 1))
    return zip(*(tensor.split(step) for tensor in tensors), strict=True)


def shared_quantile(
    columns: Sequence[Tensor], masses: Sequence[Tensor], wanted: Tensor, communicator: Communicator
) -> Tensor:
    """For every column the smallest number on any process below or at which at least a wanted mass lies.

    A floating-point number has the order of its bits (the sign turned round). Eight bits at a time, the mass in each of
    256 intervals is summed over the processes, and only what lies in the interval of the quantile goes on to the next
    round: four rounds for single precision, eight for double, and the answer is one of the numbers, to the last bit. No
    process ever sees the numbers of another.

    Args:
        columns (sequence): What this process holds of every column, 1-D tensors of one floating type.
        masses (sequence): The mass of each number, 1-D tensors.
        wanted (torch.Tensor): The mass wanted for every column in double precision, of shape :obj:`[num_columns]`.
        communicator (Communicator): What connects the processes.

    Returns:
        torch.Tensor: Of shape :obj:`[num_columns]` in the type of the columns.
    """
    dtype = columns[0].dtype
    whole = torch.int32 if dtype == torch.float32 else torch.int64
    size = torch.iinfo(whole).bits
    # Adding zero makes one number of the two zeros.
    keys = [_order_bits((column + 0.0).view(whole)) for column in columns]
    masses = [mass.double() for mass in masses]
    answer = torch.zeros(len(columns), dtype=torch.long, device=wanted.device)
    below = torch.zeros_like(wanted)
    for shift in range(size - _BITS, -1, -_BITS):
        digits = [_digit(key, shift, size) for key in keys]
        held = [  # of no numbers at all, torch counts in integers
            torch.bincount(digit, mass, minlength=1 << _BITS).double()
            for digit, mass in zip(digits, masses, strict=True)
        ]
        share = communicator.sum(torch.stack(held))
        cumulative = below.unsqueeze(1) + share.cumsum(dim=1)
        chosen = _first(cumulative >= wanted.unsqueeze(1), share > 0)
        before = cumulative.gather(1, (chosen - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
        below = torch.where(chosen > 0, before, below)
        answer = (answer << _BITS) | chosen
        near = [digit == number for digit, number in zip(digits, chosen, strict=True)]
        keys = [key[here] for key, here in zip(keys, near, strict=True)]
        masses = [mass[here] for mass, here in zip(masses, near, strict=True)]
    answer ^= torch.iinfo(torch.long).min if size == 64 else 1 << (size - 1)  # the first digit was turned round
    if size == 32:
        answer = torch.where(answer >= 1 << 31, answer - (1 << 32), answer)
    return _order_bits(answer.to(whole)).view(dtype)


def _order_bits(bits: Tensor) -> Tensor:
    """The bits of floating-point numbers as integers of the same order, and back."""
    lower = torch.iinfo(bits.dtype).max
    return torch.where(bits < 0, bits ^ lower, bits)


def _digit(key: Tensor, shift: int, size: int) -> Tensor:
    """Eight bits of the keys, the first of which are turned round so that negative ones come first."""
    digit = (key >> shift).long() & ((1 << _BITS) - 1)
    return digit ^ (1 << (_BITS - 1)) if shift == size - _BITS else digit


def _first(enough: Tensor, present: Tensor) -> Tensor:
    """The first place of every row with enough mass; rounding may leave none, then the last one with any."""
    good = enough & present
    last = present.size(1) - 1 - present.flip(1).to(torch.uint8).argmax(dim=1)
    return torch.where(good.any(dim=1), good.to(torch.uint8).argmax(dim=1), last)
