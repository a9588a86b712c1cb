"""What several processes have to do together; with one process every function returns what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from tg_crepe._optional import require

T = TypeVar("T")


def gather_rows(accelerator: Any, index: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Computes a row for every index, each process a part of them; all processes get all rows, in order.

    Args:
        accelerator (accelerate.Accelerator): The processes.
        index (torch.Tensor): Indices, at least one per process.
        compute (callable): From indices to one row each.
    """
    if accelerator.num_processes == 1:
        return compute(index)
    parts = index.tensor_split(accelerator.num_processes)
    rows = compute(parts[accelerator.process_index])
    # Only tensors of one size can be gathered: short parts are filled up, and cut again.
    most = max(map(len, parts))
    padded = torch.cat([rows, rows.new_zeros(most - rows.size(0), *rows.shape[1:])]).to(accelerator.device)
    gathered = accelerator.gather(padded).to(rows.device).split(most)
    return torch.cat([block[: len(part)] for block, part in zip(gathered, parts, strict=True)])


def from_main_process(value: T) -> T:
    """What the main process has, on every process."""
    received: T = require("accelerate.utils", extra="train").broadcast_object_list([value])[0]
    return received


def largest(accelerator: Any, value: int) -> int:
    """The largest number that any process has."""
    if accelerator.num_processes == 1:
        return value
    number = torch.tensor([value], device=accelerator.device)
    return int(accelerator.gather(number).max())


def mean_over_processes(accelerator: Any, value: Tensor) -> Tensor:
    """The mean of a number over the processes."""
    if accelerator.num_processes == 1:
        return value
    return accelerator.gather(value.reshape(1)).mean()


def share_buffers(accelerator: Any, network: nn.Module) -> None:
    """Gives every process the running statistics of the main one: gradients are averaged, statistics are not."""
    if accelerator.num_processes > 1:
        for buffer in network.buffers():
            torch.distributed.broadcast(buffer, src=0)


def progress(accelerator: Any, items: Iterable[T], title: str, total: int | None = None) -> Iterable[T]:
    """The items under a bar with the time that is left, on a terminal and on the main process."""
    hidden = None if accelerator.is_main_process else True
    bar: Iterable[T] = tqdm(items, desc=title, total=total, leave=total is None, disable=hidden)
    return bar
