from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist


@contextmanager
def process_group(seconds: float = 300.0) -> Iterator[None]:
    """The group of processes that ``torchrun`` has started, while the block lasts; without it this process is alone.

    Args:
        seconds (float, optional): How long a process waits for the others before it gives up. (default: :obj:`300`)
    """
    if "RANK" not in os.environ or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    yield
    # Only where all went well: after a fault the other side may be gone, and to say goodbye would take a time-out.
    dist.destroy_process_group()


def was_restarted() -> bool:
    """Whether ``torchrun`` has started these processes again after a fault."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
