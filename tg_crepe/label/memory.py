from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Gives memory that is free back to the system.

    The C library of Linux keeps what a solve let go of, a quarter of a gigabyte with 70,000 items, and more with every
    solve, since what it keeps is in pieces. Other systems give it back by themselves.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # that of musl has none
        if trim is not None:
            trim(0)
