"""Ranks as threads of one process: the collectives of a communicator without sockets, for many of them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tg_crepe.distributed import Shard, Traffic
from tg_crepe.distributed.inference import part_graph
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.labels import read_some_labels
from tg_crepe.models import EnergyModel, PropagationResult
from tg_crepe.solvers import FlowObserver

# Before Python 3.12 a cached property holds one lock for all objects, and ranks that share a process would wait for
# each other inside of it.
for _attribute in vars(CanonicalGraph).values():
    if isinstance(_attribute, cached_property) and hasattr(_attribute, "lock"):
        _attribute.lock = nullcontext()


class _Table:
    """Where the threads lay what they have for the others."""

    def __init__(self, world_size: int) -> None:
        self._barrier = threading.Barrier(world_size, timeout=120)
        self.turn = threading.Lock()  # one rank computes at a time: they would only get in each other's way
        # Two, used in turn: nobody lays down the next item but one before all have read this one.
        self.items: list[list[Any]] = [[None] * world_size for _ in range(2)]

    def meet(self) -> None:
        """Waits for the others, and lets them work meanwhile."""
        self.turn.release()
        try:
            self._barrier.wait()
        finally:
            self.turn.acquire()

    def give_up(self) -> None:
        self._barrier.abort()


class ThreadTransport:
    def __init__(self, rank: int, world_size: int, table: _Table) -> None:
        self.rank, self.world_size, self._table, self._count = rank, world_size, table, 0

    def _everybody(self, item: Any) -> list[Any]:
        items = self._table.items[self._count % 2]
        self._count += 1
        items[self.rank] = item
        self._table.meet()
        return list(items)

    def all_reduce(self, x: Tensor, largest: bool) -> None:
        items = torch.stack(self._everybody(x.clone()))
        x.copy_(items.amax(dim=0) if largest else items.sum(dim=0))

    def all_gather(self, x: Tensor) -> list[Tensor]:
        return self._everybody(x.clone())

    def all_to_all(self, incoming: Tensor, outgoing: Tensor, recv_counts: list[int], send_counts: list[int]) -> Any:
        parts = self._everybody(outgoing.split(send_counts))
        incoming.copy_(torch.cat([part[self.rank] for part in parts]))
        assert [part[self.rank].size(0) for part in parts] == recv_counts
        return _Here()


class _Here:
    def wait(self) -> None:
        pass


def run_threads(world_size: int, job: Callable[[ThreadTransport], Any]) -> list[Any]:
    """What ``job(transport)`` returns for every rank, or the first error of one."""
    table, results = _Table(world_size), [None] * world_size
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        with table.turn:
            try:
                results[rank] = job(ThreadTransport(rank, world_size, table))
            except threading.BrokenBarrierError as error:
                errors.append(error)  # another one has failed, and stands before this in the list
            except BaseException as error:
                errors.insert(0, error)
                table.give_up()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def infer_on_threads(
    model: EnergyModel,
    world_size: int,
    edge_index: Tensor,
    edge_weight: Tensor,
    y: Tensor,
    mask: Tensor,
    owner: Tensor,
    u0: Tensor | None = None,
    observers: list[FlowObserver] | None = None,
) -> tuple[dict[str, Tensor], list[Traffic]]:
    """The result of a model on all nodes, put together from the ranks, and what each of them has told the others."""
    traffic = [Traffic() for _ in range(world_size)]

    def job(transport: ThreadTransport) -> tuple[Tensor, PropagationResult]:
        rank = transport.rank
        shard = Shard.from_graph(edge_index, edge_weight, owner, rank, world_size, y, mask)
        watching = () if observers is None else (observers[rank],)
        labels = read_some_labels(shard.y, shard.mask, shard.num_classes, shard.num_own)
        start = None if u0 is None else u0[shard.node_id]
        with torch.no_grad():  # a setting of the thread
            result = model.infer(labels, lambda: (part_graph(shard, traffic[rank], transport), []), start, watching)
        return shard.node_id, result

    whole: dict[str, Tensor] = {}
    for node_id, result in run_threads(world_size, job):
        for name in ("u", "label", "prob", "certainty", "reached"):
            part = getattr(result, name)
            whole.setdefault(name, part.new_empty(y.size(0), *part.shape[1:]))[node_id] = part
    return whole, traffic
