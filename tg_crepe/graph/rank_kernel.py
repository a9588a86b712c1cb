"""Candidates ranked by direct distance, a row at a time: nothing of the size of all differences is ever written."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def rank_rows(first, last, exact, rows, found, rough, neighbor, squared, error):  # type: ignore[no-untyped-def]
    """For the queries ``first`` to ``last``: the nearest of ``found`` [n, c] by (squared distance, index) to
    ``neighbor`` and ``squared`` [n, k], the row itself left out, and the largest error of ``rough`` to ``error``."""
    count, width, features = found.shape[1], neighbor.shape[1], exact.shape[1]
    value, index = np.empty(width), np.empty(width, dtype=np.int64)
    for place in range(first, last):
        own, worst = rows[place], 0.0
        value[:] = np.inf
        index[:] = exact.shape[0]
        for c in range(count):
            other, total = found[place, c], 0.0
            for f in range(features):
                difference = exact[own, f] - exact[other, f]
                total += difference * difference
            worst = max(worst, abs(rough[place, c] - total))
            if other == own:
                continue
            at = width  # candidates come nearly in order, so that an insertion moves little
            while at > 0 and (value[at - 1] > total or (value[at - 1] == total and index[at - 1] > other)):
                at -= 1
                if at + 1 < width:
                    value[at + 1], index[at + 1] = value[at], index[at]
            if at < width:
                value[at], index[at] = total, other
        error[place] = worst
        neighbor[place], squared[place] = index, value
