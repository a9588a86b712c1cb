"""Compiled kernels on several threads.

The kernels release the GIL and are called from a pool of Python threads, each taking the next chunk of nodes. Numba's
own layers will not do: ``omp`` kills a forked child (a DataLoader worker), and ``workqueue`` cannot be entered from two
Python threads at once. The number of threads is torch's, so one setting rules both.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

#: Numbers that one thread takes at a time, whatever their number: a sum over them has one order.
_NUMBERS_AT_A_TIME = 1 << 19

_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def _forget_pool() -> None:
    """A forked child has none of the pool's threads, and must not wait for them."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)


def _get_pool(workers: int) -> ThreadPoolExecutor:
    """The pool of this process, grown when more threads are asked for."""
    global _pool
    with _lock:
        if _pool is None or _pool._max_workers < workers:
            _pool = ThreadPoolExecutor(workers, thread_name_prefix="tg_crepe")
        return _pool


def row_ranges(rows: int, width: int = 1) -> list[tuple[int, int]]:
    """The rows that one thread takes at a time, of ``width`` numbers each; they do not depend on the threads."""
    step = max(1, _NUMBERS_AT_A_TIME // width)
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


def for_each_chunk(work: Callable[[int], None], num_chunks: int) -> None:
    """Calls ``work(chunk)`` for every chunk, on as many threads as torch uses; chunks must not depend on each other."""
    workers = min(torch.get_num_threads(), num_chunks)
    if workers <= 1:
        for chunk in range(num_chunks):
            work(chunk)
        return
    counter = itertools.count()

    stopped = False

    def drain() -> None:
        while not stopped and (chunk := next(counter)) < num_chunks:
            work(chunk)

    futures = [_get_pool(workers).submit(drain) for _ in range(workers - 1)]
    try:
        drain()  # this thread takes its share too
        for future in futures:
            future.result()
    except BaseException:
        stopped = True  # Ctrl-C ends all threads, and the end of the process waits for them
        raise
