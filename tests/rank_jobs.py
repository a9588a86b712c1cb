"""Processes of a group for the tests, and what they do; a function here is run by every rank."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import queue
import signal
import socket
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from distributed_problems import SharedProblem
from torch import Tensor

from tg_crepe.distributed import Checkpoints, Shard, ShardError, Traffic, propagate
from tg_crepe.distributed.communicator import RankCommunicator
from tg_crepe.models import CrepePropagation, EnergyModel, Recipe, get_energy_model

#: A server that has imported everything and forks the ranks: each of them would need seconds for it.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["rank_jobs", "torch", "tg_crepe.models", "tg_crepe.distributed", "scipy.sparse.csgraph"]
)


@dataclass(frozen=True)
class Failed:
    """How a rank ended that returned nothing."""

    message: str


@dataclass(frozen=True)
class Kill:
    """A rank that is ended from outside, so many seconds after a folder has been made."""

    rank: int
    folder: Path
    seconds: float

    def wait(self, process: Any) -> None:
        """Waits for the moment, or for the process to end by itself."""
        while not self.folder.exists() and process.exitcode is None:
            time.sleep(0.002)
        process.join(self.seconds)


def run_ranks(
    world_size: int,
    job: Callable[..., Any],
    *args: Any,
    seconds: float = 60,
    limit: float = 300,
    kill: Kill | None = None,
) -> list[Any]:
    """What ``job(*args)`` returns on every rank of a new group of processes, :class:`Failed` where it did not.

    Args:
        world_size (int): The number of processes.
        job (callable): A function of this module.
        *args: Its arguments.
        seconds (float): The time-out of a collective.
        limit (float): Seconds after which the processes are ended.
        kill (Kill): Which of them is killed, and when.
    """
    # As bytes, both ways: torch would share memory, which is gone with the process that made it.
    given = pickle.dumps((job, args))
    results: Any = _CONTEXT.Queue()
    found: dict[int, Any] = {}
    gone: set[int] = set()
    end = time.monotonic() + limit
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        store = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    processes = [
        _CONTEXT.Process(target=_rank, args=(rank, world_size, store, seconds, results, given))
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    if kill is not None:
        kill.wait(processes[kill.rank])
        processes[kill.rank].kill()
    while len(found) < world_size and time.monotonic() < end:
        try:
            rank, value = results.get(timeout=0.2)
            found[rank] = pickle.loads(value)
        except queue.Empty:
            for rank in gone - set(found):  # ended before the queue was found empty, so nothing more is to come
                found[rank] = Failed(f"exit code {processes[rank].exitcode}")
            gone = {rank for rank, process in enumerate(processes) if process.exitcode is not None}
    for process in processes:
        process.join(timeout=max(1.0, min(20.0, end - time.monotonic())))
        if process.is_alive():
            process.kill()
            process.join()
    return [found.get(rank, Failed("no answer")) for rank in range(world_size)]


def _rank(rank: int, world_size: int, store: str, seconds: float, results: Any, given: bytes) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    warnings.simplefilter("ignore")
    value: Any
    try:
        dist.init_process_group("gloo", store, rank=rank, world_size=world_size, timeout=timedelta(seconds=seconds))
        job, args = pickle.loads(given)
        value = job(*args)
    except Exception as error:
        value = Failed(f"{type(error).__name__}: {error}")
    results.put((rank, pickle.dumps(value)))
    results.close()
    results.join_thread()
    if isinstance(value, Failed):
        os._exit(0)  # the others may be gone, and a group does not end without them
    dist.destroy_process_group()


def infer(problems: list[SharedProblem], model: EnergyModel, u0: bool) -> list[tuple[Tensor, Tensor, Tensor, Traffic]]:
    """The nodes of this rank, their class functions and labels, and what it has told the others."""
    answers = []
    for problem in problems:
        shard, traffic = shard_of(problem), Traffic()
        start = problem.start()[shard.node_id] if u0 else None
        result = propagate(model, shard, start, traffic=traffic)
        answers.append((shard.node_id, result.u, result.label, traffic))
    return answers


def shard_of(problem: SharedProblem) -> Shard:
    """The shard of this rank."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    owner = problem.blocks(world_size)
    return Shard.from_graph(problem.edge_index, problem.edge_weight, owner, rank, world_size, problem.y, problem.mask)


def wrong(problem: SharedProblem) -> dict[str, str]:
    """What this rank is told when something is wrong on the second one."""
    shard = shard_of(problem)
    second = dist.get_rank() == 1
    cases = {
        "classes": (CrepePropagation(), replace(shard, num_classes=3) if second else shard),
        "dtype": (CrepePropagation(), replace(shard, weight=shard.weight.double()) if second else shard),
        "model": (CrepePropagation(Recipe(eps=0.5 if second else 1.0)), shard),
        "labels": (CrepePropagation(), replace(shard, y=None) if second else shard),
        "mask": (CrepePropagation(), replace(shard, mask=torch.zeros_like(shard.mask))),
        "world": (CrepePropagation(), replace(shard, world_size=3) if second else shard),
        "unfit": (get_energy_model("sparse_lp"), shard),
    }
    told = {}
    for name, (model, own) in cases.items():
        try:
            propagate(model, own)
        except ShardError as error:
            told[name] = str(error)
    return told


def collectives() -> dict[str, Any]:
    """One of each on nodes 0 1 | 2, with the edges 0–1 and 1–2."""
    rank, communicator = dist.get_rank(), _three_nodes()
    first = rank == 0
    own = torch.tensor([0, 1]) if first else torch.tensor([2])
    restricted, kept = communicator.restrict(own != 1)
    return {
        "sum": communicator.sum(torch.tensor([float(rank), 1.0], dtype=torch.float64)),
        "sums": communicator.sums(torch.tensor(rank), torch.tensor([[rank, 1]]), torch.tensor([], dtype=torch.long)),
        "max": communicator.max(torch.tensor(rank)),
        "union": communicator.union(torch.tensor([5, 3, 3]) if first else torch.tensor([4, 5, 9, 9])),
        "halo": communicator.halo(torch.stack([own, 10 * own], dim=1).float()),
        "flags": communicator.halo(own == 2),
        "kept": kept,
        "restricted": restricted.halo(own[own != 1]),
        "traffic": communicator.traffic,
    }


def _three_nodes() -> RankCommunicator:
    first = dist.get_rank() == 0
    send = [torch.tensor([], dtype=torch.long), torch.tensor([1])] if first else [torch.tensor([0]), torch.tensor([])]
    number = torch.tensor([0, 1, 2]) if first else torch.tensor([2, 1])
    return RankCommunicator(send, [0, 1] if first else [1, 0], number)


def silent_rank() -> None:
    """The second rank does not come to a halo exchange."""
    if dist.get_rank() == 1:
        time.sleep(2)
        os._exit(0)
    _three_nodes().halo(torch.zeros(2, 1))


def dead_rank() -> None:
    """The last rank ends before a sum."""
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        os._exit(0)
    nothing = torch.tensor([])
    RankCommunicator([nothing] * dist.get_world_size(), [0] * dist.get_world_size(), nothing).sum(torch.zeros(1))


class _Killing(Checkpoints):
    """Ends the last rank in the middle of a flow, by the signal that nobody can catch."""

    def __init__(self, folder: Path, run: dict[str, Any], flow: int, step: int) -> None:
        super().__init__(folder, run)
        self._moment = (flow, step)

    def on_step(self, state: Any) -> None:
        if (self._flow, state.step) == self._moment and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        super().on_step(state)


def kept_flow(problem: SharedProblem, folder: Path, killed: tuple[int, int] | None) -> tuple[Tensor, Tensor, Tensor]:
    """A run that is kept in a folder, in which a rank may be killed in a flow at a step."""
    run = {"of": "the tests"}
    checkpoints = Checkpoints(folder, run) if killed is None else _Killing(folder, run, *killed)
    shard = shard_of(problem)
    result = propagate(CrepePropagation(), shard, observers=(checkpoints,))
    return shard.node_id, result.u, result.label


def command(*lines: list[str]) -> list[tuple[int, str]]:
    """Exit code and stderr of command lines, run one after the other as torchrun would run them on this rank."""
    from tg_crepe.cli.app import run

    os.environ["RANK"] = str(dist.get_rank())
    answers = []
    for line in lines:
        with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
            code = run(line)
        answers.append((code, told.getvalue()))
    return answers
