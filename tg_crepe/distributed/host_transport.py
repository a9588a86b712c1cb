from __future__ import annotations

from torch import Tensor

from tg_crepe.distributed.links import Delivery, Links, connect
from tg_crepe.distributed.lost_rank import naming_lost_ranks
from tg_crepe.distributed.ring import Ring
from tg_crepe.distributed.transport import FEW, ProcessTransport
from tg_crepe.graph.communicator import Exchange


class HostTransport(ProcessTransport):
    """Processes of one machine that tell each other what is on the CPU by streams of their own.

    Args:
        links (Links): A stream to each of the other ranks.
    """

    def __init__(self, links: Links) -> None:
        super().__init__()
        self._links = links

    def all_reduce(self, x: Tensor, largest: bool) -> None:
        """Replaces every entry by its sum over the ranks, or by the largest."""
        if x.device.type != "cpu":
            return super().all_reduce(x, largest)
        with naming_lost_ranks("a sum over the ranks"):
            held = self._everybody(x)
        x.view(-1).copy_(held.amax(dim=0) if largest else held.sum(dim=0))

    def all_gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all ranks, which have the same shape."""
        if x.device.type != "cpu":
            return super().all_gather(x)
        with naming_lost_ranks("a gather"):
            return [part.view(x.shape) for part in self._everybody(x)]

    def _everybody(self, x: Tensor) -> Tensor:
        """What all ranks have in place of ``x``, a row each, in the same order everywhere: so are the sums."""
        held = x.new_empty(self.world_size, x.numel())
        held[self.rank] = x.view(-1)
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        self._links.begin(dict.fromkeys(others, x), {rank: held[rank] for rank in others}).wait()
        return held

    def all_to_all(
        self, incoming: Tensor, outgoing: Tensor, recv_counts: list[int], send_counts: list[int]
    ) -> Exchange:
        """Begins to send the first rows to rank 0, the next to rank 1, and so on, and to receive as many as told."""
        if outgoing.device.type != "cpu":
            return super().all_to_all(incoming, outgoing, recv_counts, send_counts)
        with naming_lost_ranks("a halo exchange"):
            sent, received = outgoing.split(send_counts), incoming.split(recv_counts)
            return _UnderWay(self._links.begin(dict(enumerate(sent)), dict(enumerate(received))))


class _UnderWay:
    """Rows on their way."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def wait(self) -> None:
        """Returns when the rows are there."""
        with naming_lost_ranks("a halo exchange"):
            self._delivery.wait()


def find_transport() -> ProcessTransport:
    """The quickest way to the other processes: streams between few of them on one machine, else the process group."""
    ring = Ring()
    links = connect(ring) if 1 < ring.world_size <= FEW else None
    return ProcessTransport() if links is None else HostTransport(links)
