"""The group of processes that torchrun starts, and who of them is missing when a collective fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist

#: Seconds in which the processes that are still there say so, once one of them is missed.
_ROLL_CALL = 2.0


class LostRankError(ConnectionError):
    """A process did not answer in time or is gone; the message says which."""


@contextmanager
def name_lost_ranks(what: str) -> Iterator[None]:
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
        store: Any = dist.distributed_c10d._get_default_store()  # torch has no public name for it
        store.set(f"tg_crepe/present/{rank}", "yes")
        return _call_roll(lambda other: bool(store.check([f"tg_crepe/present/{other}"])), world_size)
    except (RuntimeError, OSError, ValueError):
        return [0]  # it holds the store, unless torchrun does


def _call_roll(answers: Callable[[int], bool], world_size: int) -> list[int]:
    """Who has not answered when the time is over; it ends at once where all have."""
    end = time.monotonic() + _ROLL_CALL
    lost = list(range(world_size))
    while lost and time.monotonic() < end:
        lost = [other for other in lost if not answers(other)]
        time.sleep(0.05)
    return lost


@contextmanager
def process_group(seconds: float = 300.0) -> Iterator[None]:
    """The group of processes that ``torchrun`` has started, while the block lasts; without it this process is alone.

    Args:
        seconds (float, optional): How long a process waits for the others before it gives up. (default: :obj:`300`)
    """
    if "RANK" not in os.environ or dist.is_initialized():
        yield
        return
    wait = timedelta(seconds=seconds)
    try:
        store, rank, world_size = next(dist.rendezvous("env://", timeout=wait))
        # Restarted processes find the store of the first ones, and must not take these for their own.
        store = dist.PrefixStore(f"tg_crepe/{_restarts()}", store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=wait)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise LostRankError(f"rank {os.environ['RANK']}: the processes did not find each other ({reason})") from error
    yield
    # Only where all went well: after a fault the other side may be gone, and to say goodbye would take a time-out.
    dist.destroy_process_group()


def was_restarted() -> bool:
    """Whether ``torchrun`` has started these processes again after a fault."""
    return _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
