"""Sums in double precision: nothing is converted that does not stay in a register.

Arrays are slices of what is summed: where an index may be negative the compiler leaves a loop as it is. Sums are taken
in lanes, in an order that is the same at every call.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FAST = {"reassoc", "contract", "nsz"}

#: About how many numbers the sums of columns take at a time.
_GROUP = 512


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def plain(a):  # type: ignore[no-untyped-def]
    """Σ a_k."""
    total = 0.0
    for k in range(a.size):
        total += np.float64(a[k])
    return total


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def absolute(a):  # type: ignore[no-untyped-def]
    """Σ |a_k|."""
    total = 0.0
    for k in range(a.size):
        total += abs(np.float64(a[k]))
    return total


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def product(a, b):  # type: ignore[no-untyped-def]
    """Σ a_k b_k."""
    total = 0.0
    for k in range(a.size):
        total += np.float64(a[k]) * np.float64(b[k])
    return total


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def squared_difference(a, b):  # type: ignore[no-untyped-def]
    """Σ (a_k − b_k)²."""
    total = 0.0
    for k in range(a.size):
        apart = np.float64(a[k]) - np.float64(b[k])
        total += apart * apart
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def dot_columns(first, last, a, b, total):  # type: ignore[no-untyped-def]
    """Adds Σ_i a_i^l b_i^l over the rows ``first`` to ``last`` to ``total`` [L]; ``a`` and ``b`` are flat. Several rows
    at a time: one alone is too short for a register."""
    width = total.shape[0]
    rows = max(1, _GROUP // width)
    held = np.zeros(rows * width)
    for group in range(first, last, rows):
        start, end = group * width, min(group + rows, last) * width
        one, other = a[start:end], b[start:end]
        for k in range(one.size):
            held[k] += np.float64(one[k]) * np.float64(other[k])
    for k in range(held.size):
        total[k % width] += held[k]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def weigh_rows(first, last, mass, a, total):  # type: ignore[no-untyped-def]
    """As :func:`dot_columns` Σ_i m_i a_i, with one number ``mass`` [n] for all of a row."""
    width = total.shape[0]
    rows = max(1, _GROUP // width)
    held, spread = np.zeros(rows * width), np.empty(rows * width)
    for group in range(first, last, rows):
        end = min(group + rows, last)
        near, one = mass[group:end], a[group * width : end * width]
        for row in range(near.size):
            spread[row * width : (row + 1) * width] = np.float64(near[row])
        for k in range(one.size):
            held[k] += spread[k] * np.float64(one[k])
    for k in range(held.size):
        total[k % width] += held[k]
