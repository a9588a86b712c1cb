"""Freed memory goes back to the system between the stages of a large solve.

glibc keeps freed blocks of less than 32 MB for the next ones of their size; the next stage asks for other sizes, and
the peak of a process is then what all of its stages would need together.
"""

from __future__ import annotations

import contextlib
import ctypes

#: Bytes of the arrays of a stage from which on it pays: what is asked for again must be cleared by the system first.
_LARGE = 1 << 23


def give_back(num_bytes: int) -> None:
    """Gives freed memory back after a stage that worked on arrays of ``num_bytes``; elsewhere than on Linux nothing."""
    if num_bytes >= _LARGE:
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
