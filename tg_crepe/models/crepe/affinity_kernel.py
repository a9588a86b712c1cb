"""The affinity of the soft labels at the two ends of every edge, without an array with a row per edge."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def fill_affinity(begin, end, first, second, root, affinity):  # type: ignore[no-untyped-def]
    """Writes Σ_l root_i^l root_j^l for the edges ``begin`` to ``end`` to ``affinity`` [m]."""
    for edge in range(begin, end):
        one, other = root[first[edge]], root[second[edge]]
        total = root.dtype.type(0)
        for c in range(root.shape[1]):
            total += one[c] * other[c]
        affinity[edge] = total
