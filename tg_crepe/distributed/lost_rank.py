from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

#: Seconds in which the processes that are still there say so, once one of them is missed.
_ROLL_CALL = 2.0


class LostRankError(ConnectionError):
    """A process did not answer in time or is gone; the message says which."""


@contextmanager
def naming_lost_ranks(what: str) -> Iterator[None]:
    """Turns the error of a collective into one that names the processes that did not take part."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        rank = dist.get_rank()
        lost = _absent(rank, dist.get_world_size())
        named = f"rank(s) {', '.join(map(str, lost))} did not take part" if lost else "the connection failed"
        reason = str(error).strip().splitlines()[0]
        raise LostRankError(f"rank {rank}: {what} failed, {named} ({reason})") from error


def _absent(rank: int, world_size: int) -> list[int]:
    """Who does not answer: everybody to whom the collective has failed leaves a note in the common store."""
    try:
        store: Any = dist.distributed_c10d._get_default_store()
        store.set(f"tg_crepe/present/{rank}", "yes")
        return _waiting(lambda other: bool(store.check([f"tg_crepe/present/{other}"])), world_size)
    except (RuntimeError, OSError, ValueError):
        return [0]  # it holds the store, unless torchrun does


def _waiting(answers: Callable[[int], bool], world_size: int) -> list[int]:
    end = time.monotonic() + _ROLL_CALL
    lost = list(range(world_size))
    while lost and time.monotonic() < end:
        lost = [other for other in lost if not answers(other)]
        time.sleep(0.05)
    return lost
