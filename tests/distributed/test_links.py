"""Streams between ranks, here the two ends of pairs of sockets in one process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import torch

from tg_crepe.distributed.links import Links, connect
from tg_crepe.distributed.ring import Ring


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    first, second = socket.socketpair()
    with first, second:
        yield first, second


def two_ranks(ends: tuple[socket.socket, socket.socket], seconds: float = 60) -> tuple[Links, Links]:
    """The links of ranks 0 and 1."""
    return Links({1: ends[0]}, seconds), Links({0: ends[1]}, seconds)


def test_more_than_a_stream_holds_goes_both_ways_at_once(ends):
    first, second = two_ranks(ends)
    sent = [torch.randn(5_000_000, generator=torch.Generator().manual_seed(rank)) for rank in range(2)]
    got = [torch.empty_like(x) for x in sent]

    def meet(links: Links, rank: int) -> None:
        links.begin({1 - rank: sent[rank]}, {1 - rank: got[rank]}).wait()

    other = threading.Thread(target=meet, args=(second, 1))
    other.start()
    meet(first, 0)
    other.join(60)
    assert torch.equal(got[0], sent[1])
    assert torch.equal(got[1], sent[0])


def test_what_is_begun_first_arrives_first_whatever_is_waited_for_first(ends):
    first, second = two_ranks(ends)
    for number in (1, 2):
        second.begin({0: torch.full((3, number), number)}, {})
    got = [torch.zeros(3, number, dtype=torch.long) for number in (1, 2)]
    early, late = (first.begin({}, {1: part}) for part in got)
    late.wait()
    early.wait()
    assert [part.unique().tolist() for part in got] == [[1], [2]]


def test_nothing_is_sent_for_an_empty_tensor(ends):
    first, second = two_ranks(ends)
    nothing, got = torch.empty(0, 3), torch.zeros(2, dtype=torch.bool)
    second.begin({0: nothing}, {0: nothing}).wait()
    second.begin({0: torch.ones(2, dtype=torch.bool)}, {}).wait()
    first.begin({1: nothing}, {1: nothing}).wait()
    first.begin({}, {1: got}).wait()
    assert got.all()


def test_a_silent_rank_is_named_after_the_time_that_it_has(ends):
    first, _ = two_ranks(ends, seconds=0.05)
    with pytest.raises(TimeoutError, match=r"nothing from rank\(s\) 1 in 0.05 s"):
        first.begin({1: torch.ones(1)}, {1: torch.ones(1)}).wait()


def test_a_rank_that_is_gone_is_named(ends):
    first, _ = two_ranks(ends)
    ends[1].close()
    with pytest.raises(ConnectionResetError, match="rank 1 has closed its end"):
        first.begin({}, {1: torch.ones(1)}).wait()


def test_a_group_that_carries_nothing_on_the_cpu_keeps_its_own_ways(monkeypatch):
    class OfGpusAlone:
        def _get_backend(self, device: torch.device) -> None:
            raise RuntimeError(f"No backend type associated with device type {device}")

    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_group", OfGpusAlone)
    assert connect(Ring()) is None
