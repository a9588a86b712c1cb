from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from tg_crepe.distributed.processes import name_lost_ranks
from tg_crepe.graph.communicator import Exchange

#: Up to so many ranks on CPUs everybody tells everybody: one hop, where the ring of gloo's reduction takes 2 (P − 1).
FEW = 8


class Transport(Protocol):
    """The three collectives that a communicator needs, and who takes part in them."""

    rank: int
    world_size: int

    def all_reduce(self, x: Tensor, largest: bool) -> None:
        """Replaces every entry by its sum over the ranks, or by the largest."""
        ...

    def all_gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all ranks, which have the same shape."""
        ...

    def all_to_all(
        self, incoming: Tensor, outgoing: Tensor, recv_counts: list[int], send_counts: list[int]
    ) -> Exchange:
        """Begins to send the first rows to rank 0, the next to rank 1, and so on, and to receive as many as told."""
        ...


class _UnderWay:
    """Rows on their way, and the buffers they go from and to, which must live until then."""

    def __init__(self, work: Any, *buffers: Tensor) -> None:
        self._work, self._buffers = work, buffers

    def wait(self) -> None:
        """Returns when the rows are there."""
        with name_lost_ranks("a halo exchange"):
            self._work.wait()


class ProcessTransport:
    """The processes of ``torch.distributed``; without a process group this one is alone."""

    def __init__(self) -> None:
        several = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if several else 0
        self.world_size = dist.get_world_size() if several else 1

    def all_reduce(self, x: Tensor, largest: bool) -> None:
        """Replaces every entry by its sum over the ranks, or by the largest."""
        with name_lost_ranks("a sum over the ranks"):
            if x.device.type == "cpu" and self.world_size <= FEW:
                held = x.new_empty(self.world_size, x.numel())
                dist.all_to_all_single(held, x.view(1, -1).repeat(self.world_size, 1))
                x.view(-1).copy_(held.amax(dim=0) if largest else held.sum(dim=0))
            else:
                dist.all_reduce(x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)

    def all_gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all ranks, which have the same shape."""
        held = [torch.empty_like(x) for _ in range(self.world_size)]
        with name_lost_ranks("a gather"):
            dist.all_gather(held, x)
        return held

    def all_to_all(
        self, incoming: Tensor, outgoing: Tensor, recv_counts: list[int], send_counts: list[int]
    ) -> Exchange:
        """Begins an :func:`torch.distributed.all_to_all_single`."""
        with name_lost_ranks("a halo exchange"):
            work = dist.all_to_all_single(incoming, outgoing, recv_counts, send_counts, async_op=True)
        return _UnderWay(work, incoming, outgoing)
