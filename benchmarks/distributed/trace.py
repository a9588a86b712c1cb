"""The moments of an iteration on two ranks: halo under way, inner nodes, wait, nodes at the boundary.

A part of ``distributed``. The halo is there when gloo says so, by a callback of its own thread.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tg_crepe.distributed import Shard
from tg_crepe.distributed.inference import part_graph
from tg_crepe.distributed.transport import ProcessTransport
from tg_crepe.energy import Coupling
from tg_crepe.graph.communicator import Exchange
from tg_crepe.solvers.backends import make_backend
from tg_crepe.solvers.problem import InnerProblem

#: Iterations that are looked at, after as many that are not, and how many of them are drawn.
_ITERATIONS, _DRAWN = 20, 3

#: Moments of an iteration, in milliseconds: the exchange begins, the halo is there, the inner nodes are done, the wait
#: has ended, the iteration has.
_MOMENTS = ("begun", "there", "inner", "waited", "end")


class TimedTransport(ProcessTransport):
    """Notes when an exchange begins, when its rows are there, and when they are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[dict[str, float]] = []

    def all_to_all(
        self, incoming: Tensor, outgoing: Tensor, recv_counts: list[int], send_counts: list[int]
    ) -> Exchange:
        """Begins an exchange."""
        moments = {"begun": time.perf_counter()}
        self.moments.append(moments)
        work: Any = dist.all_to_all_single(incoming, outgoing, recv_counts, send_counts, async_op=True)
        work.get_future().add_done_callback(lambda _: moments.__setitem__("there", time.perf_counter()))
        return _TimedExchange(work, moments, outgoing)


class _TimedExchange:
    def __init__(self, work: Any, moments: dict[str, float], outgoing: Tensor) -> None:
        self._work, self._moments, self._outgoing = work, moments, outgoing

    def wait(self) -> None:
        """Returns when the rows are there."""
        self._moments["inner"] = time.perf_counter()
        self._work.wait()
        self._moments["waited"] = time.perf_counter()


def iterations(shard: Shard, classes: int) -> dict[str, list[dict[str, float]]]:
    """The moments of iterations of every backend that waits for a halo, in milliseconds since the first."""
    found = {}
    for name in ("numba", "torch"):
        transport = TimedTransport()
        graph = part_graph(shard, transport=transport)
        order = graph.local_order()
        graph = graph if order is None else graph.reorder(order)
        u = torch.randn(graph.num_nodes, classes, generator=torch.Generator().manual_seed(100))
        problem = InnerProblem(u, torch.zeros_like(u), 1.0, Coupling(), graph.communicator)
        backend = make_backend(name, graph)
        state = backend.start(u)
        transport.moments.clear()
        for _ in range(2 * _ITERATIONS):
            state = backend.iterate(state, problem, 1.0, 0.5)
            transport.moments[-1]["end"] = time.perf_counter()
        dist.barrier()
        moments = transport.moments[_ITERATIONS:]
        start = moments[0]["begun"]
        found[name] = [{key: 1e3 * (row[key] - start) for key in _MOMENTS} for row in moments]
    return found


def summary(ranks: list[dict[str, list[dict[str, float]]]]) -> list[dict[str, object]]:
    """For every backend and rank the medians of an iteration, and how much of the exchange is hidden."""
    rows: list[dict[str, object]] = []
    for backend in ranks[0]:
        for rank, found in enumerate(ranks):
            steps = found[backend]
            hidden = [(min(s["there"], s["inner"]) - s["begun"]) / (s["there"] - s["begun"]) for s in steps]
            rows.append(
                {
                    "backend": backend,
                    "rank": rank,
                    "exchange ms": statistics.median(s["there"] - s["begun"] for s in steps),
                    "inner nodes ms": statistics.median(s["inner"] - s["begun"] for s in steps),
                    "waiting ms": statistics.median(s["waited"] - s["inner"] for s in steps),
                    "rest ms": statistics.median(s["end"] - s["waited"] for s in steps),
                    "hidden share of the exchange": statistics.median(hidden),
                    "iterations": len(steps),
                }
            )
    return rows


def draw(ranks: list[dict[str, list[dict[str, float]]]], path: Path) -> None:
    """A few iterations as bars: what the network does above what the processor does."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kinds = {"halo under way": "tab:orange", "inner nodes": "tab:blue", "waiting": "tab:red", "the rest": "tab:cyan"}
    figure, axes = plt.subplots(len(ranks[0]), 1, figsize=(9, 2.2 * len(ranks[0])), constrained_layout=True)
    for axis, backend in zip(axes, ranks[0], strict=True):
        for rank, found in enumerate(ranks):
            for step in found[backend][:_DRAWN]:
                spans = (("begun", "there"), ("begun", "inner"), ("inner", "waited"), ("waited", "end"))
                for (first, last), (kind, colour) in zip(spans, kinds.items(), strict=True):
                    above = kind == "halo under way"
                    height = 3 * rank + (0.9 if above else 0)
                    axis.broken_barh([(step[first], step[last] - step[first])], (height, 0.8), color=colour)
        axis.set_yticks([0.85, 3.85], ["rank 0", "rank 1"])
        axis.set_title(f"{backend} backend", loc="left")
        axis.set_xlabel("ms since the first iteration shown began on the rank")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in kinds.values()]
    figure.legend(handles, list(kinds), loc="outside lower center", ncols=len(kinds))
    figure.savefig(path, dpi=110)
    plt.close(figure)
