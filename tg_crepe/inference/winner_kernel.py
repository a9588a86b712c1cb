"""Which class wins at every node, for several diffusions that stand beside each other, without an array of winners."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, fastmath={"nsz", "contract"}, error_model="numpy")
def count_winners(first, last, x, free, scale, count):  # type: ignore[no-untyped-def]
    """Adds to ``count`` [P, L] how often a class has the largest :math:`s x` at the free nodes ``first`` to ``last``
    that a diffusion reaches; ``x`` is [n, P L], ``scale`` [P, L], and of two that are equal the first one wins."""
    parts, classes = scale.shape
    for i in range(first, last):
        if not free[i]:
            continue
        row = x[i]
        for part in range(parts):
            here, factor = row[part * classes : (part + 1) * classes], scale[part]
            best, winner, alive = here[0] * factor[0], 0, here[0] != 0
            for c in range(1, classes):
                value = here[c] * factor[c]
                alive = alive or here[c] != 0
                if value > best:
                    best, winner = value, c
            if alive:
                count[part, winner] += 1
