from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.distributed.transport import ProcessTransport, Transport
from tg_crepe.graph.communicator import Exchange


@dataclass
class Traffic:
    """What a process has told the others.

    Args:
        exchanges (int): Halo exchanges.
        bytes_sent (int): Bytes of own rows sent in them.
        bytes_received (int): Bytes of halo rows received in them.
        reductions (int): Sums and maxima over all processes.
        bytes_reduced (int): Their size.
    """

    exchanges: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    reductions: int = 0
    bytes_reduced: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What was added since a copy was made."""
        return Traffic(**{name: value - getattr(before, name) for name, value in vars(self).items()})


class _Nothing:
    def wait(self) -> None:
        """There is no halo."""


class RankCommunicator:
    r"""The :class:`~tg_crepe.graph.communicator.Communicator` of a process of ``torch.distributed``.

    A halo exchange is one :func:`torch.distributed.all_to_all_single`; the rows that arrive are written where they
    belong, behind the own ones. Every rank makes the same calls in the same order.

    Args:
        send (sequence): For every rank the own rows that it needs, in the order of its halo.
        recv_counts (sequence): For every rank how many rows of the halo it owns.
        number (torch.Tensor): The global numbers of own and halo nodes, of shape :obj:`[num_nodes + num_halo]`.
        traffic (Traffic, optional): What counts bytes and calls. (default: a new one)
        transport (Transport, optional): What carries out the collectives.
            (default: the process group of ``torch.distributed``)
    """

    def __init__(
        self,
        send: Sequence[Tensor],
        recv_counts: Sequence[int],
        number: Tensor,
        traffic: Traffic | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.transport: Transport = ProcessTransport() if transport is None else transport
        self.rank, self.world_size = self.transport.rank, self.transport.world_size
        self.number: Tensor | None = number
        self.traffic = traffic if traffic is not None else Traffic()
        self.num_halo = sum(recv_counts)
        self._send = [rows.long() for rows in send]
        self._rows = torch.cat(self._send)
        self._send_counts = [rows.numel() for rows in send]
        self._recv_counts = list(recv_counts)

    def _like(self, send: Sequence[Tensor], recv_counts: Sequence[int], number: Tensor) -> RankCommunicator:
        """Another graph of the same processes."""
        return RankCommunicator(send, recv_counts, number, self.traffic, self.transport)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a small tensor over the ranks, the same bits on all of them."""
        return self._reduce(x, largest=False)

    def sums(self, *x: Tensor) -> tuple[Tensor, ...]:
        """The sums of several small tensors of one type over the ranks, in one message."""
        if self.world_size == 1:
            return x
        both = self.sum(torch.cat([part.reshape(-1) for part in x]))
        parts = both.split([part.numel() for part in x])
        return tuple(part.view(like.shape) for part, like in zip(parts, x, strict=True))

    def gather(self, x: Tensor) -> tuple[Tensor, int]:
        """A short 1-D tensor of all ranks, one after the other, and where that of this one begins."""
        sizes = torch.zeros(self.world_size, dtype=torch.long, device=x.device)
        sizes[self.rank] = x.numel()
        sizes = self.sum(sizes)
        begin = int(sizes[: self.rank].sum())
        everything = x.new_zeros(int(sizes.sum()))
        everything[begin : begin + x.numel()] = x
        return self.sum(everything), begin

    def max(self, x: Tensor) -> Tensor:
        """The largest of every entry over the ranks."""
        return self._reduce(x, largest=True)

    def _reduce(self, x: Tensor, largest: bool) -> Tensor:
        if self.world_size == 1:
            return x
        x = x.clone(memory_format=torch.contiguous_format)
        self.transport.all_reduce(x, largest)
        self.traffic.reductions += 1
        self.traffic.bytes_reduced += x.numel() * x.element_size()
        return x

    def union(self, x: Tensor) -> Tensor:
        """The different values of a short 1-D tensor on any rank, ascending."""
        x = x.unique()
        if self.world_size == 1:
            return x
        counts = torch.zeros(self.world_size, dtype=torch.long, device=x.device)
        counts[self.rank] = x.numel()
        counts = self.sum(counts)
        padded = x.new_zeros(int(counts.max()))
        padded[: x.numel()] = x
        held = self.transport.all_gather(padded)
        return torch.cat([part[:count] for part, count in zip(held, counts.tolist(), strict=True)]).unique()

    def halo(self, x: Tensor) -> Tensor:
        """Own and halo rows from own rows."""
        if self.world_size == 1:
            return x
        if x.dtype == torch.bool:
            return self.halo(x.to(torch.uint8)).bool()
        both = x.new_empty(x.size(0) + self.num_halo, *x.shape[1:])
        both[: x.size(0)] = x
        self.exchange(x, both[x.size(0) :]).wait()
        return both

    def exchange(self, own: Tensor, halo: Tensor) -> Exchange:
        """Begins to fill the rows of ``halo`` from the ``own`` rows of other ranks; the caller can go on meanwhile."""
        if self.world_size == 1:
            return _Nothing()
        outgoing = own.index_select(0, self._rows)
        under_way = self.transport.all_to_all(halo, outgoing, self._recv_counts, self._send_counts)
        width = halo[:1].numel() * halo.element_size()
        self.traffic.exchanges += 1
        self.traffic.bytes_sent += outgoing.size(0) * width
        self.traffic.bytes_received += self.num_halo * width
        return under_way

    def reorder(self, order: Tensor) -> RankCommunicator:
        """The same with the own nodes in another order."""
        assert self.number is not None
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        number = torch.cat([self.number[order], self.number[order.numel() :]])
        send = [place[rows] for rows in self._send]
        return self._like(send, self._recv_counts, number)

    def restrict(self, keep: Tensor) -> tuple[RankCommunicator, Tensor]:
        """The same for the own nodes where ``keep`` holds, and ``keep`` for own and halo nodes."""
        assert self.number is not None
        kept = self.halo(keep)
        place = keep.cumsum(0) - 1
        send = [place[rows[keep[rows]]] for rows in self._send]
        recv_counts = [int(part.sum()) for part in kept[keep.numel() :].split(self._recv_counts)]
        return self._like(send, recv_counts, self.number[kept]), kept
