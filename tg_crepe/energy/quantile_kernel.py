"""Weighted quantiles by the bits of the numbers: a few passes over a column, and nothing is sorted."""

from __future__ import annotations

import numpy as np
from numba import njit

#: Bits that a pass settles: 2,048 sums of masses stay in the cache.
_DIGIT = 11


@njit(inline="always")
def _ordered(bits, lower):  # type: ignore[no-untyped-def]
    """The bits of a floating-point number as an integer of the same order, and back; a branch would cost more."""
    bits = np.int64(bits)
    return bits ^ ((bits >> 63) & lower)


@njit(nogil=True, cache=True, error_model="numpy")
def select_quantile(bits, mass, wanted):  # type: ignore[no-untyped-def]
    """The bits of the smallest number at or below which at least ``wanted`` of ``mass`` [n] lies, of those whose bits
    are given as signed integers [n]; of the largest one where rounding leaves none."""
    size = 8 * bits.itemsize
    lower = np.int64((1 << (size - 1)) - 1)
    held = np.empty(1 << _DIGIT)
    below, prefix, above = 0.0, np.int64(0), size
    while above > 0:
        shift = max(above - _DIGIT, 0)
        width = above - shift
        first = -(1 << (width - 1)) if above == size else 0  # the first digit has a sign
        held[:] = 0.0
        last = -1
        for node in range(bits.size):
            key = _ordered(bits[node], lower)
            # A shift by all bits shifts by none.
            if above == size or (key >> above) == prefix:
                digit = (key >> shift) - first if above == size else (key >> shift) & ((1 << width) - 1)
                held[digit] += mass[node]
                last = max(last, digit)
        digit = 0
        while digit < last and below + held[digit] < wanted:
            below += held[digit]
            digit += 1
        prefix = digit + first if above == size else (prefix << width) | digit
        above = shift
    return _ordered(prefix, lower)
