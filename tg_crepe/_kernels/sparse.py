"""Products of a sparse matrix with a few columns."""

from __future__ import annotations

import numpy as np
from numba import njit

from tg_crepe._kernels.vector import gather


@njit(nogil=True, cache=True, error_model="numpy")
def multiply(row, first, last, ptr, col, value, x, out):  # type: ignore[no-untyped-def]
    """``out[i] = Σ_e value_e x[col_e]`` for the rows ``first`` to ``last``; ``x`` and ``out`` are flat [n · L]."""
    num_classes = out.shape[0] // (ptr.shape[0] - 1)
    here = np.empty(num_classes, dtype=out.dtype)
    for i in range(first, last):
        gather(row, x, col, value, ptr[i], ptr[i + 1], here)
        for c in range(num_classes):
            out[i * num_classes + c] = here[c]
