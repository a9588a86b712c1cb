"""The fused primal–dual pass of the clamped total variation over a range of nodes, and the sums of its lower bound.

Arrays: ``ptr`` [n + 1] and ``col`` [2m] are the directed edges by node, ``weight`` [2m], ``reach`` [2m] holds ones,
``inverse`` [n] is 1/d, ``dual`` [2m · L] and ``u_bar`` [n · L] are flat, functions and bounds are [n, L].
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tg_crepe.solvers.kernels.vector import dual_step

# Compiled code is cached by this file's date: touch it when `vector.py` changes.
# No reassociation: the two copies of the dual of an edge must stay exact negatives of each other.
_FAST = {"nnan", "ninf", "nsz", "contract"}


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def iterate(  # type: ignore[no-untyped-def]
    row, first, last, ptr, col, weight, reach, inverse, dual, u_bar, u, lower, upper, u_new, u_bar_new, rho, sigma,
):  # fmt: skip
    """One iteration for the nodes ``first`` to ``last``: dual, divergence, clamp, extrapolation.

    ``rho`` and ``sigma`` are the primal and the dual step, of the arrays' type, or the arithmetic would widen.
    """
    num_classes = u.shape[1]
    here = np.empty(num_classes, dtype=u.dtype)
    for i in range(first, last):
        dual_step(row, dual, u_bar, col, weight, reach, ptr[i], ptr[i + 1], i, sigma, here)
        step = rho * inverse[i]
        for c in range(num_classes):
            value = min(max(u[i, c] - step * here[c], lower[i, c]), upper[i, c])
            u_bar_new[i * num_classes + c] = value + value - u[i, c]
            u_new[i, c] = value


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def lower_bound(first, last, ptr, weight, dual, lower, upper, total):  # type: ignore[no-untyped-def]
    """Adds min over the box of ⟨u, K*z⟩, a term a node and class, to ``total`` [L], in double precision."""
    num_classes = lower.shape[1]
    divergence = np.empty(num_classes)
    for i in range(first, last):
        divergence[:] = 0
        for e in range(ptr[i], ptr[i + 1]):
            for c in range(num_classes):
                divergence[c] += np.float64(weight[e]) * dual[e * num_classes + c]
        for c in range(num_classes):
            total[c] += min(divergence[c] * lower[i, c], divergence[c] * upper[i, c])
