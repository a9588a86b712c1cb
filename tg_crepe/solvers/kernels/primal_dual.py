"""The fused primal–dual pass over a range of nodes, and the sums that certify it.

Arrays: ``ptr`` [n + 1] and ``col`` [2m] are the directed edges by node, ``weight`` [2m], ``reach`` [2m] is
1/(s_i + s_j), the same on both copies of an edge, ``inverse`` [n] is 1/d, ``scale`` [n] the s of K = W diag(s),
``dual`` [2m · L] and ``v`` [n · L] are flat, functions are [n, L]. ``mode`` says which constraint a row obeys.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tg_crepe.solvers.kernels.vector import dual_step, variation

#: Constraint sets: none, coupling, coupling with label priors, independent columns, known values between 0 and 1.
FREE, COUPLING, LABELS, INDEPENDENT, KNOWN = range(5)

# Compiled code is cached by this file's date: touch it when `vector.py` changes.
# No reassociation: the two copies of the dual of an edge must stay exact negatives of each other.
_FAST = {"nnan", "ninf", "nsz", "contract"}


@njit(fastmath=_FAST, inline="always")
def _project_row(row, mode, label, sign, node, eps, share):  # type: ignore[no-untyped-def]
    """The nearest row of the constraint set, in place; ``share`` is one over the number of classes."""
    num_classes = row.shape[0]
    if mode == COUPLING or (mode == LABELS and label < 0):
        mean = row[0] * 0
        for c in range(num_classes):
            mean += row[c]
        mean *= share
        for c in range(num_classes):
            row[c] -= mean
    elif mode == LABELS:
        for c in range(num_classes):
            if c == label:
                row[c] = max(row[c], eps)
            else:
                row[c] = min(row[c], -eps)
    elif mode == INDEPENDENT:
        for c in range(num_classes):
            if sign[node, c] > 0:
                row[c] = max(row[c], eps)
            elif sign[node, c] < 0:
                row[c] = min(row[c], -eps)
    elif mode == KNOWN:
        zero, one = row.dtype.type(0), row.dtype.type(1)
        for c in range(num_classes):
            row[c] = min(max(row[c], zero), one)
        if label >= 0:  # most rows know nothing
            for c in range(num_classes):
                if sign[node, c] != 0:
                    row[c] = one if sign[node, c] > 0 else zero


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def iterate(  # type: ignore[no-untyped-def]
    row, first, last, ptr, col, weight, reach, inverse, scale, dual, v, u, source, u_new, v_new, mode, label, sign,
    eps, share, rho, step, theta, shrink,
):  # fmt: skip
    """One iteration for the nodes ``first`` to ``last``: dual, divergence, prox, projection, extrapolation.

    ``source`` is u_k/δt + c, ``step`` 1/ρ, ``shrink`` 1/(1 + ρ/δt); ``v`` is the extrapolated point times s.
    All scalars are of the arrays' type, or the arithmetic would widen.
    """
    num_classes = u.shape[1]
    here = np.empty(num_classes, dtype=u.dtype)
    for i in range(first, last):
        dual_step(row, dual, v, col, weight, reach, ptr[i], ptr[i + 1], i, step, here)
        size = rho * inverse[i]
        for c in range(num_classes):
            here[c] = (u[i, c] - size * here[c] + rho * source[i, c]) * shrink
        _project_row(here, mode, label[i], sign, i, eps, share)
        for c in range(num_classes):
            v_new[i * num_classes + c] = (here[c] + theta * (here[c] - u[i, c])) * scale[i]
            u_new[i, c] = here[c]


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def energy(row, first, last, ptr, col, weight, v, total):  # type: ignore[no-untyped-def]
    """Adds Σ w |v_i − v_j| over the edges of the nodes, in both directions, to ``total`` [L]; ``v`` is s · u, flat."""
    num_classes = total.shape[0]
    here = np.empty(num_classes, dtype=v.dtype)
    for i in range(first, last):
        variation(row, v, col, weight, ptr[i], ptr[i + 1], i, here)
        for c in range(num_classes):
            total[c] += here[c]


@njit(fastmath=_FAST, inline="always")
def _diverge(node, ptr, weight, scale, dual, total):  # type: ignore[no-untyped-def]
    """Writes K*z at a node to ``total`` [L], in double precision."""
    num_classes = total.shape[0]
    total[:] = 0
    for e in range(ptr[node], ptr[node + 1]):
        for c in range(num_classes):
            total[c] += np.float64(weight[e]) * dual[e * num_classes + c]
    for c in range(num_classes):
        total[c] *= np.float64(scale[node])


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def divergence(first, last, ptr, weight, scale, dual, total):  # type: ignore[no-untyped-def]
    """Writes K*z at the nodes to ``total`` [n, L], in double precision."""
    for i in range(first, last):
        _diverge(i, ptr, weight, scale, dual, total[i])


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def certify(  # type: ignore[no-untyped-def]
    first, last, ptr, weight, scale, dual, u, u_prev, linear, mode, label, sign, eps, time_step, total,
):  # fmt: skip
    """Adds to ``total`` what the certificate is made of, in double precision.

    [0] P(u) without the energy, [1] D(z), [2] ⟨u, K*z⟩, [3] ‖u − u(z)‖², [4] ‖u‖².
    """
    num_classes = u.shape[1]
    flux, best = np.empty(num_classes), np.empty(num_classes)
    for i in range(first, last):
        _diverge(i, ptr, weight, scale, dual, flux)
        for c in range(num_classes):
            best[c] = u_prev[i, c] + time_step * (linear[i, c] - flux[c])
        _project_row(best, mode, label[i], sign, i, eps, 1 / num_classes)
        for c in range(num_classes):
            now, before, push = np.float64(u[i, c]), np.float64(u_prev[i, c]), np.float64(linear[i, c])
            total[0] += (now - before) ** 2 / (2 * time_step) - push * now
            total[1] += (best[c] - before) ** 2 / (2 * time_step) - push * best[c] + best[c] * flux[c]
            total[2] += now * flux[c]
            total[3] += (now - best[c]) ** 2
            total[4] += now * now
