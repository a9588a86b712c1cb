"""The two passes of conjugate gradients between products: each reads and writes its arrays once.

Arrays are flat, of rows with one number per system. ``diagonal`` preconditions: empty where nothing does, with a number
per row, or per row and column. Several rows are taken at a time, as slices: a row alone is too short for a register,
and where an index may be negative the compiler leaves a loop as it is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FAST = {"contract", "nsz"}

#: About how many numbers are taken at a time.
_GROUP = 512


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def advance(first, last, x, p, r, ap, diagonal, step, along, square):  # type: ignore[no-untyped-def]
    """x ← x + s p, r ← r − s A p for the rows ``first`` to ``last``; adds ⟨r, h⟩ to ``along`` and ‖r‖² to ``square``
    [L], in double precision, where h is r over the diagonal. Where there is none, ``along`` stays."""
    width = step.shape[0]
    rows = max(1, _GROUP // width)
    preconditioned, per_row = diagonal.size > 0, diagonal.size * width == x.size
    spread = _repeat(step, rows)
    divisor = np.empty_like(spread)
    squares, products = np.zeros(rows * width), np.zeros(rows * width)
    for group in range(first, last, rows):
        start, end = group * width, min(group + rows, last) * width
        here, way, rest, image = x[start:end], p[start:end], r[start:end], ap[start:end]
        for k in range(here.size):
            here[k] += spread[k] * way[k]
        for k in range(here.size):
            rest[k] -= spread[k] * image[k]
        for k in range(here.size):
            squares[k] += np.float64(rest[k]) * np.float64(rest[k])
        if preconditioned:
            _spread_rows(diagonal, group, min(group + rows, last), width, per_row, divisor)
            for k in range(here.size):
                products[k] += np.float64(rest[k]) * np.float64(rest[k] / divisor[k])
    for k in range(squares.size):
        square[k % width] += squares[k]
        along[k % width] += products[k]


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def turn(first, last, p, r, diagonal, share):  # type: ignore[no-untyped-def]
    """p ← h + t p for the rows ``first`` to ``last``."""
    width = share.shape[0]
    rows = max(1, _GROUP // width)
    preconditioned, per_row = diagonal.size > 0, diagonal.size * width == p.size
    spread = _repeat(share, rows)
    divisor = np.empty_like(spread)
    for group in range(first, last, rows):
        start, end = group * width, min(group + rows, last) * width
        way, rest = p[start:end], r[start:end]
        if preconditioned:
            _spread_rows(diagonal, group, min(group + rows, last), width, per_row, divisor)
            for k in range(way.size):
                way[k] = rest[k] / divisor[k] + spread[k] * way[k]
        else:
            for k in range(way.size):
                way[k] = rest[k] + spread[k] * way[k]


@njit
def _repeat(values, rows):  # type: ignore[no-untyped-def]
    """The same row of numbers several times."""
    spread = np.empty(rows * values.size, dtype=values.dtype)
    for k in range(spread.size):
        spread[k] = values[k % values.size]
    return spread


@njit(inline="always")
def _spread_rows(diagonal, first, last, width, per_row, divisor):  # type: ignore[no-untyped-def]
    """Writes the diagonal of every number of some rows to ``divisor``."""
    if per_row:
        near = diagonal[first:last]
        for row in range(near.size):
            divisor[row * width : (row + 1) * width] = near[row]
    else:
        near = diagonal[first * width : last * width]
        divisor[: near.size] = near
