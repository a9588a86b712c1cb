from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist

from tg_crepe.distributed.lost_rank import LostRankError


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
