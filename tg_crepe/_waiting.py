"""Threads that wait for each other sleep; by default they spin, and on a busy machine that is most of the time.

An OpenMP thread that has done its share of an operation spins for milliseconds until the others have, on the very core
that they wait for where other processes run too. A call of two seconds took more than a minute so, with six times the
processor time. The runtime reads its setting when it is loaded: for what is loaded after this package that is an
environment variable. For GNU's, which comes with torch on Linux, there is another way afterwards: it all but stops to
spin while it manages more threads than there are processors, so one idle team of threads is kept.
"""

from __future__ import annotations

import os
import sys
import threading

#: Who has set one of these has decided.
_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

_decided = any(name in os.environ for name in _SETTINGS)
_lock = threading.Lock()
_parked: threading.Thread | None = None


def set_passive() -> None:
    """Has the OpenMP runtimes that are loaded from now on wait without spinning, unless the user has decided."""
    global _decided
    if _decided:
        return
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    _decided = "torch" not in sys.modules  # what is loaded already has not read it


def wait_passively() -> None:
    """Has torch's threads wait without spinning where torch was there before this package; the first call does it."""
    global _parked
    if _decided or not sys.platform.startswith("linux"):
        return
    import torch

    with _lock:
        if torch.get_num_threads() < 2 or (_parked is not None and _parked.is_alive()):
            return
        ready = threading.Event()

        def park() -> None:
            torch.zeros(1 << 17).add_(1)  # large enough for a team of threads, which belongs to this thread
            ready.set()
            threading.Event().wait()

        _parked = threading.Thread(target=park, name="tg_crepe idle team", daemon=True)
        _parked.start()
        ready.wait()


def _forget() -> None:
    """A forked child has neither the thread nor its team."""
    global _lock, _parked, _decided
    _lock, _parked, _decided = threading.Lock(), None, True


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
