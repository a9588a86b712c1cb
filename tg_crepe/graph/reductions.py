"""Sums and quantiles over the nodes of a graph: in double precision, the same for every thread count and on every rank.

A sum makes no copy of its arguments in double precision, and its order does not depend on the threads: compiled code
takes chunks of one length. Where there is none, torch sums slices that are shorter than what it shares among threads
(32,768 numbers); it would convert a whole tensor before it reduces it in another type, and its dot products are not
used, because the libraries behind them cut by threads as well.
Where several processes hold a part of the rows each, ``communicator`` is what adds up their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk, row_ranges
from tg_crepe.graph.communicator import ALONE, Communicator

#: Bits of a number that a round of :func:`shared_quantile` settles.
_BITS = 8

#: Numbers that torch converts at a time.
_SLICE = (1 << 15) - 1

#: What compiled code reads.
_READ = (torch.float32, torch.float64, torch.bool)


def inner(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\langle a, b \rangle` of two tensors of the same shape, a scalar in double precision."""
    return communicator.sum(_add_up("product", lambda x, y: x * y, a, b))


def norm(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_2`, a scalar in double precision."""
    return inner(a, a, communicator).sqrt()


def squared_distance(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a - b\|^2` of two tensors of the same shape, a scalar in double precision."""
    return communicator.sum(_add_up("squared_difference", lambda x, y: (x - y).square_(), a, b))


def plain_sum(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\sum_i a_i` over all entries, a scalar in double precision."""
    return communicator.sum(_add_up("plain", lambda x: x, a))


def absolute_sum(a: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\|a\|_1`, a scalar in double precision."""
    return communicator.sum(_add_up("absolute", torch.abs, a))


def _add_up(name: str, term: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The sum over all entries of the kernel of a name, or of the same ``term`` in slices where it cannot run."""
    if any(x.shape != tensors[0].shape for x in tensors):
        raise ValueError(f"tensors must have one shape to be summed, got {[tuple(x.shape) for x in tensors]}")
    if not _compiles(*tensors):
        total = tensors[0].new_zeros((), dtype=torch.float64)
        for slices in zip(*(x.reshape(-1).split(_SLICE) for x in tensors), strict=True):
            total += term(*(x.double() for x in slices)).sum()
        return total
    from tg_crepe.graph import reduction_kernel

    kernel, arrays = getattr(reduction_kernel, name), [flat(x) for x in tensors]
    ranges = row_ranges(arrays[0].size)
    found = np.zeros(len(ranges))

    def work(chunk: int) -> None:
        found[chunk] = kernel(*(x[slice(*ranges[chunk])] for x in arrays))

    for_each_chunk(work, len(ranges))
    return torch.tensor(found.sum())


def weighted_sum(mass: Tensor, x: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\sum_i m_i x_i` of every column of ``x``, of shape :obj:`[num_columns]` in double precision."""
    if not _compiles(mass, x):
        step, total = max(1, _SLICE // max(x.size(1), 1)), x.new_zeros(x.size(1), dtype=torch.float64)
        for m, part in zip(mass.split(step), x.split(step), strict=True):
            total += (m.double().unsqueeze(1) * part.double()).sum(dim=0)
        return communicator.sum(total)
    return communicator.sum(_by_column("weigh_rows", x, flat(mass), flat(x)))


def column_dots(a: Tensor, b: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r""":math:`\langle a^l, b^l \rangle` of every column of two matrices, of shape :obj:`[num_columns]` in double
    precision."""
    if not _compiles(a, b):
        step, total = max(1, _SLICE // max(a.size(1), 1)), a.new_zeros(a.size(1), dtype=torch.float64)
        for one, other in zip(a.split(step), b.split(step), strict=True):
            total += (one.double() * other.double()).sum(dim=0)
        return communicator.sum(total)
    return communicator.sum(_by_column("dot_columns", a, flat(a), flat(b)))


def _by_column(name: str, x: Tensor, *arrays: np.ndarray) -> Tensor:
    """What the kernel of a name adds up of the rows of ``x``, in the shape of one of them."""
    from tg_crepe.graph import reduction_kernel

    kernel, ranges = getattr(reduction_kernel, name), row_ranges(*x.shape)
    found = np.zeros((len(ranges), x.size(1)))
    for_each_chunk(lambda chunk: kernel(*ranges[chunk], *arrays, found[chunk]), len(ranges))
    return torch.from_numpy(found.sum(axis=0))


def _compiles(*tensors: Tensor) -> bool:
    """Whether compiled code can read them."""
    return all(x.device.type == "cpu" and x.numel() > 0 and x.dtype in _READ for x in tensors) and available("numba")


def flat(x: Tensor) -> np.ndarray:
    """The numbers of a tensor on the CPU for compiled code, without a copy where they are in order."""
    return x.detach().contiguous().view(-1).numpy()


def safe_divide(x: Tensor | float, by: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    """``x / by`` where ``by`` is positive, and ``otherwise`` elsewhere."""
    positive = by > 0
    return torch.where(positive, x / torch.where(positive, by, 1.0), otherwise)


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
