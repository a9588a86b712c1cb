from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from tg_crepe.distributed.manifest import ShardError
from tg_crepe.distributed.processes import name_lost_ranks

T = TypeVar("T")

#: What a user can put right; anything else is a fault and ends its process as it is.
_BAD_INPUT = (ValueError, OSError, ImportError)


class Ring:
    """The processes of ``torch.distributed`` in a ring, in which blocks of rows go round; one process is a ring too.

    All of them must make the same calls in the same order. The tensors are on the CPU, so the process group needs
    gloo (:obj:`"gloo"` or :obj:`"cpu:gloo,cuda:nccl"`).
    """

    def __init__(self) -> None:
        several = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if several else 0
        self.world_size = dist.get_world_size() if several else 1

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a tensor over the ranks."""
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: Tensor) -> Tensor:
        """The largest of every entry over the ranks."""
        return self._reduce(x, dist.ReduceOp.MAX)

    def _reduce(self, x: Tensor, operation: Any) -> Tensor:
        x = x.clone()
        if self.world_size > 1:
            with name_lost_ranks("a reduction over the ranks"):
                dist.all_reduce(x, operation)
        return x

    def gather(self, item: T) -> list[T]:
        """A small object of every rank."""
        if self.world_size == 1:
            return [item]
        items: list[Any] = [None] * self.world_size
        with name_lost_ranks("a gather"):
            dist.all_gather_object(items, item)
        return items

    def together(self, action: Callable[[], T]) -> T:
        """Does something that may fail on some ranks: then all of them raise, and none waits for one that is gone.

        What is done must not talk to the other ranks itself.

        Raises:
            ShardError: on every rank, with the message of the lowest one that failed.
        """
        error: Exception | None = None
        try:
            result = action()
        except _BAD_INPUT as failure:
            error = failure
        messages = self.gather(None if error is None else str(error))
        for rank, message in enumerate(messages):
            if message is not None:
                where = f"rank {rank}: " if self.world_size > 1 else ""
                raise ShardError(f"{where}{message}") from error
        return result

    def blocks(self, own: Callable[[int], tuple[Tensor, Tensor]], turns: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Every block of every rank with the rank it comes from, the next on its way while one is looked at.

        Args:
            own (callable): Makes the own block of a turn, two tensors with one row per node, which may have no rows.
            turns (int): How many blocks there are, the same number on all ranks.
        """
        for turn in range(turns):
            held = own(turn)
            rows = self.gather(held[0].size(0))
            for step in range(self.world_size):
                source = (self.rank - step) % self.world_size
                last = step == self.world_size - 1
                coming, requests = (held, []) if last else self._pass_on(held, rows[source - 1])
                yield source, *held
                with name_lost_ranks("the passing on of a block"):
                    for request in requests:
                        request.wait()
                held = coming

    def _pass_on(self, held: tuple[Tensor, Tensor], rows: int) -> tuple[tuple[Tensor, Tensor], list[Any]]:
        """Begins to send a block to the next rank and to receive one with so many rows from the rank before."""
        after, before = (self.rank + 1) % self.world_size, (self.rank - 1) % self.world_size
        first, second = (part.new_empty(rows, *part.shape[1:]) for part in held)
        requests: list[Any] = []
        for tag, (outgoing, incoming) in enumerate(zip(held, (first, second), strict=True)):
            if outgoing.numel():
                requests.append(dist.isend(outgoing.contiguous(), after, tag=tag))
            if incoming.numel():
                requests.append(dist.irecv(incoming, before, tag=tag))
        return (first, second), requests

    def exchange(self, counts: Tensor, *tensors: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Sends the first ``counts[0]`` rows of every tensor to rank 0, the next to rank 1, and so on.

        Returns:
            How many rows came from every rank, and the tensors of what came, in the order of ranks.
        """
        if self.world_size == 1:
            return counts, list(tensors)
        received, arrived = torch.empty_like(counts), []
        with name_lost_ranks("an exchange of edges"):
            dist.all_to_all_single(received, counts)
            for tensor in tensors:
                arrived.append(tensor.new_empty(int(received.sum()), *tensor.shape[1:]))
                dist.all_to_all_single(arrived[-1], tensor.contiguous(), received.tolist(), counts.tolist())
        return received, arrived
