from __future__ import annotations

import contextlib
import select
import socket
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tg_crepe.distributed.ring import Ring

#: Bytes that a stream is asked to hold for a rank that is not there yet; the system may grant less.
_HELD = 4 << 20


class Links:
    """A stream of bytes to every other rank of the same machine.

    What is sent fits what the system holds, or waits there for the other side to read: no thread has to be woken to
    pass it on, which is most of what a short message costs otherwise. All ranks must make the same calls in the same
    order.

    Args:
        streams (mapping): A connected socket for each of the other ranks.
        seconds (float): How long the others may be silent.
    """

    def __init__(self, streams: Mapping[int, socket.socket], seconds: float) -> None:
        self._streams, self._seconds = streams, seconds
        self._last: Delivery | None = None
        for stream in streams.values():
            stream.setblocking(False)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)

    def begin(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor]) -> Delivery:
        """Begins to send a contiguous tensor to some ranks and to fill one from each of others, all on the CPU."""
        if self._last is not None:
            self._last.wait()  # a stream has no marks: what was begun first is read first
        self._last = Delivery(self._streams, self._seconds, outgoing, incoming)
        return self._last


class Delivery:
    """Tensors on their way over the streams of :class:`Links`; they must not change before :meth:`wait` returns."""

    def __init__(
        self,
        streams: Mapping[int, socket.socket],
        seconds: float,
        outgoing: Mapping[int, Tensor],
        incoming: Mapping[int, Tensor],
    ) -> None:
        self._streams, self._seconds = streams, seconds
        self._unsent = {rank: _bytes(part) for rank, part in outgoing.items() if part.numel()}
        self._unread = {rank: _bytes(part) for rank, part in incoming.items() if part.numel()}
        self._send()

    def wait(self) -> None:
        """Returns when everything has arrived and all of the own has been taken.

        Raises:
            OSError: if a rank is gone, or silent for too long.
        """
        self._receive()
        while self._unsent or self._unread:
            ready = select.poll()
            for rank, stream in self._streams.items():
                wanted = (rank in self._unread) * select.POLLIN | (rank in self._unsent) * select.POLLOUT
                if wanted:
                    ready.register(stream, wanted)
            if not ready.poll(1000 * self._seconds):
                silent = sorted({*self._unsent, *self._unread})
                raise TimeoutError(f"nothing from rank(s) {', '.join(map(str, silent))} in {self._seconds:g} s")
            self._send()
            self._receive()

    def _send(self) -> None:
        self._unsent = _moved(self._unsent, lambda rank, rest: self._streams[rank].send(rest))

    def _receive(self) -> None:
        self._unread = _moved(self._unread, self._read)

    def _read(self, rank: int, rest: memoryview) -> int:
        count = self._streams[rank].recv_into(rest)
        if count == 0:
            raise ConnectionResetError(f"rank {rank} has closed its end")
        return count


def _moved(parts: dict[int, memoryview], move: Callable[[int, memoryview], int]) -> dict[int, memoryview]:
    """What is left of every part after as much of it as can be has been moved at once."""
    left = {}
    for rank, part in parts.items():
        with contextlib.suppress(BlockingIOError):
            part = part[move(rank, part) :]
        if part:
            left[rank] = part
    return left


def _bytes(x: Tensor) -> memoryview:
    whole: Any = x.view(-1).view(torch.uint8).numpy()
    return memoryview(whole)


def connect(ring: Ring) -> Links | None:
    """Connects every rank with every other one, if all of them are on this machine.

    They are where all find the doors that the others have opened in a folder of theirs, which nobody but their user
    can enter.

    Returns:
        Links, optional: On all ranks or on none; on none too where the process group carries nothing on the CPU.
    """
    seconds = _patience()
    if seconds is None:
        return None
    with contextlib.ExitStack() as for_now, contextlib.ExitStack() as for_long:
        door = _opened(for_now)
        doors = ring.gather(None if door is None else door.getsockname())
        streams = _called(doors[: ring.rank], ring.rank, for_long)
        if not all(ring.gather(door is not None and streams is not None)) or door is None or streams is None:
            return None
        for _ in range(ring.world_size - 1 - ring.rank):  # who has called stands at the door already
            stream = for_long.enter_context(door.accept()[0])
            streams[stream.recv(1)[0]] = stream
        links = Links(streams, seconds)
        weakref.finalize(links, for_long.pop_all().close)
        return links


def _opened(stack: contextlib.ExitStack) -> socket.socket | None:
    """A door of this rank, until the stack is left, where the system has such a thing."""
    try:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tg_crepe-")))
        door = stack.enter_context(socket.socket(socket.AF_UNIX))
        door.bind(str(folder / "door"))
        door.listen()
    except (OSError, AttributeError):
        return None
    return door


def _called(doors: list[str | None], rank: int, stack: contextlib.ExitStack) -> dict[int, socket.socket] | None:
    """Streams to the ranks behind some doors, each of which is told who calls, or nothing where one is not here."""
    streams = {}
    for other, door in enumerate(doors):
        try:
            streams[other] = stack.enter_context(socket.socket(socket.AF_UNIX))
            streams[other].connect(door or "")
            streams[other].send(bytes([rank]))
        except (OSError, AttributeError):
            return None
    return streams


def _patience() -> float | None:
    """How many seconds a collective on the CPU may take, as the process group was told; one of NCCL alone has none."""
    group: Any = dist.distributed_c10d._get_default_group()
    try:
        return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
    except (RuntimeError, AttributeError):
        return None
