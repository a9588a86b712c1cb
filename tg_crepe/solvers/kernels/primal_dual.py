"""The fused primal–dual pass over a range of nodes, and the sums that certify it.

Arrays: ``ptr`` [n + 1] and ``col`` [2m] are the directed edges by node, ``weight`` [2m], ``reach`` [2m] is
1/(s_i + s_j), the same on both copies of an edge, ``inverse`` [n] is 1/d, ``scale`` [n] the s of K = W diag(s),
``dual`` [2m · L], in units of 1/``counts``, and ``v`` [n · L] are flat, functions are [n, L]. ``mode`` says which
constraint a row obeys.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tg_crepe.solvers.kernels.vector import dual_step, extrapolate_row, flux, proximal_row, variation

#: Constraint sets: none, coupling, coupling with label priors, independent columns, known values between 0 and 1.
FREE, COUPLING, LABELS, INDEPENDENT, KNOWN = range(5)

# Compiled code is cached by this file's date: touch it when `vector.py` or `__init__.py` changes.
# No reassociation: the two copies of the dual of an edge must stay exact negatives of each other.
_FAST = {"nnan", "ninf", "nsz", "contract"}

#: About how many numbers a certificate takes at a time.
_GROUP = 512


@njit(fastmath=_FAST, inline="always")
def _project_row(row, mode, label, sign, node, eps):  # type: ignore[no-untyped-def]
    """The nearest row of a constraint set that is not the coupling, in place."""
    num_classes = row.shape[0]
    if mode == LABELS:
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
    row, first, last, ptr, col, weight, reach, inverse, scale, dual, counts, v, u, source, u_new, v_new, mode, label,
    sign, eps, share, rho, step, theta, shrink,
):  # fmt: skip
    """One iteration for the nodes ``first`` to ``last``: dual, divergence, prox, projection, extrapolation.

    ``source`` is u_k/δt + c, ``step`` 1/ρ, ``shrink`` 1/(1 + ρ/δt); ``v`` is the extrapolated point times s.
    All scalars are of the arrays' type, or the arithmetic would widen.
    """
    num_classes = u.shape[1]
    here = np.empty(num_classes, dtype=u.dtype)
    for i in range(first, last):
        at = i * num_classes
        dual_step(row, dual, v, col, weight, reach, ptr[i], ptr[i + 1], i, counts * step, here)
        total = proximal_row(row, here, u, source, at, rho * inverse[i] / counts, rho, shrink)
        shift = u.dtype.type(0)
        if mode == COUPLING or (mode == LABELS and label[i] < 0):
            shift = total * share
        else:
            _project_row(here, mode, label[i], sign, i, eps)
        extrapolate_row(row, here, u, u_new, v_new, at, shift, theta, scale[i])


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def energy(row, first, last, ptr, col, weight, u, scale, total):  # type: ignore[no-untyped-def]
    """Adds Σ w |s_i u_i − s_j u_j| over the edges of the nodes, in both directions, to ``total`` [L], in double
    precision, as ``scale`` (s) is; ``u`` is flat."""
    num_classes = total.shape[0]
    here = np.empty(num_classes)
    for i in range(first, last):
        variation(row, u, scale, col, weight, ptr[i], ptr[i + 1], i, here)
        for c in range(num_classes):
            total[c] += here[c]


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def divergence(row, first, last, ptr, weight, scale, dual, counts, total):  # type: ignore[no-untyped-def]
    """Writes K*z at the nodes to ``total`` [n, L], in double precision."""
    num_classes = total.shape[1]
    here = np.empty(num_classes)
    for i in range(first, last):
        flux(row, dual, weight, ptr[i], ptr[i + 1], here)
        total[i] = here * (scale[i] / counts)


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def certify(  # type: ignore[no-untyped-def]
    row, first, last, ptr, weight, scale, dual, counts, u, u_prev, linear, mode, label, sign, eps, time_step, total,
):  # fmt: skip
    """Adds to ``total`` what the certificate is made of, in double precision.

    [0] P(u) without the energy, [1] D(z), [2] ⟨u, K*z⟩, [3] ‖u − u(z)‖², [4] ‖u‖².
    """
    num_classes = u.shape[1]
    rows = max(1, _GROUP // num_classes)
    divergence, best = np.empty(rows * num_classes), np.empty(rows * num_classes)
    for group in range(first, last, rows):
        end = min(group + rows, last)
        size = (end - group) * num_classes
        for i in range(group, end):
            at = (i - group) * num_classes
            here = divergence[at : at + num_classes]
            flux(row, dual, weight, ptr[i], ptr[i + 1], here)
            here *= scale[i] / counts
        now, before, push = (
            u[group:end].reshape(size),
            u_prev[group:end].reshape(size),
            linear[group:end].reshape(size),
        )
        apart, nearest = divergence[:size], best[:size]
        for k in range(size):
            nearest[k] = before[k] + time_step * (push[k] - apart[k])
        for i in range(group, end):
            at = (i - group) * num_classes
            here = nearest[at : at + num_classes]
            if mode == COUPLING or (mode == LABELS and label[i] < 0):
                here -= here.sum() / num_classes
            else:
                _project_row(here, mode, label[i], sign, i, eps)
        _add_terms(now, before, push, apart, nearest, time_step, total)


@njit(fastmath=_FAST | {"reassoc"}, error_model="numpy")
def _add_terms(u, before, push, apart, best, time_step, total):  # type: ignore[no-untyped-def]
    """The terms of some rows; sums may be taken in lanes."""
    smooth, dual, along, distance, square = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(best.size):
        now, then, force, flow, other = np.float64(u[k]), np.float64(before[k]), np.float64(push[k]), apart[k], best[k]
        smooth += (now - then) ** 2 / (2 * time_step) - force * now
        dual += (other - then) ** 2 / (2 * time_step) - force * other + other * flow
        along += now * flow
        distance += (now - other) ** 2
        square += now * now
    total[0] += smooth
    total[1] += dual
    total[2] += along
    total[3] += distance
    total[4] += square
