"""What several processes tell each other, hold and take, against one.

    python benchmarks/distributed            # 70,000 nodes; writes results/distributed.*, _speed.csv, _trace.csv
    python benchmarks/distributed --quick    # 5,000 nodes on 1 and 2
    python benchmarks/distributed table --nodes 700000 --worlds 1 4    # the memory of a large graph: _700000.*

Synthetic points in the plane, classes in stripes, the graph of the nearest neighbours by a k-d tree, 1 % of the labels;
parts are blocks along a space-filling order. Every process has one thread.

- ``table``: every process is started anew; its peak is what it holds, its shard included, above what imports and
  compiled code took. Bytes are those of all halo exchanges of a rank; beside bytes and peak stands what the model of
  ``docs/scaling.md`` says.
- ``speed``: one process and two in turn, several times within one run. Processor seconds (of the busier rank) are what
  the wall clock would be if nobody else used the machine and no rank waited for the other; "others" are the cores that
  other work took meanwhile, and rounds in which it took less than a tenth of one have a median of their own.
- ``trace``: when the halo of an iteration is under way on two ranks, and what is computed meanwhile.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from distributed import trace as distributed_trace
from scipy.spatial import cKDTree
from shared import machine

from tg_crepe import CrepePropagation
from tg_crepe.distributed import Shard, Traffic, open_shard, propagate, write_shards
from tg_crepe.distributed.partition import PartitionReport
from tg_crepe.distributed.shard import cut_shard
from tg_crepe.graph import CanonicalGraph, canonical_graph

#: Where the pages have their pictures.
IMAGES = machine.DOCS / "images"

#: Nodes unless told otherwise: those of Fashion-MNIST.
NODES = 70_000


def make_problem(nodes: int, classes: int, k: int) -> tuple[CanonicalGraph, torch.Tensor, torch.Tensor]:
    """A graph whose nodes are in the order of a curve through the plane, their classes, and which are labelled."""
    rng = np.random.default_rng(100)
    x = rng.random((nodes, 2))
    cells = (x * (1 << 15)).astype(np.int64)
    x = x[np.argsort(_interleave(cells[:, 0]) | (_interleave(cells[:, 1]) << 1))]
    distance, index = cKDTree(x).query(x, k + 1)
    weight = torch.from_numpy(np.exp(-4 * (distance[:, 1:] / distance[:, -1:]) ** 2).ravel()).float()
    pairs = torch.from_numpy(np.stack([np.repeat(np.arange(nodes), k), index[:, 1:].ravel()]))
    graph, _ = canonical_graph(pairs, weight, nodes)
    y = torch.from_numpy((x[:, 0] * classes).astype(np.int64).clip(max=classes - 1))
    return graph, y, torch.from_numpy(rng.random(nodes) < 0.01)


def _interleave(x: np.ndarray) -> np.ndarray:
    """The bits of 16-bit numbers with a zero after each."""
    for shift, keep in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        x = (x | (x << shift)) & keep
    return x


def write_problem(
    folder: Path, graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, world: int
) -> PartitionReport:
    """The shards of so many processes in a folder."""
    owner = torch.arange(graph.num_nodes) * world // graph.num_nodes
    return write_shards(folder, (cut_shard(graph, owner, rank, world, y, mask) for rank in range(world)))


def join(rank: int, world: int, port: int) -> None:
    """Makes a group of processes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=world)


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def settle(classes: int) -> None:
    """One thread, no warnings, and the compiled code read, by a ring of nodes."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    node = torch.arange(8 * classes)
    ring = torch.stack([node, node.roll(1)])
    CrepePropagation().propagate(node % classes, ring, node < 4 * classes)


def timed(shard: Shard) -> tuple[float, float]:
    """The seconds and the processor seconds that the labels of a shard take."""
    start, used = time.perf_counter(), time.process_time()
    propagate(CrepePropagation(), shard)
    return time.perf_counter() - start, time.process_time() - used


def _memory(name: str) -> int:
    """``VmRSS`` or ``VmHWM`` of this process in bytes, as Linux counts them since its program was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def run(rank: int, world: int, port: int, classes: int, folder: str) -> None:
    """What one process does: it opens its shard, infers its labels and leaves what it has counted."""
    settle(classes)
    join(rank, world, port)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, traffic = _memory("VmRSS"), Traffic()
    shard = open_shard(folder, rank, world)
    dist.barrier()
    label = propagate(CrepePropagation(), shard, traffic=traffic).label
    counted = {
        "own": shard.num_own,
        "halo": shard.num_halo,
        "slots": shard.col.numel(),
        "peak": _memory("VmHWM") - before,
        "whole": _memory("VmHWM"),
    }
    torch.save({**counted, **asdict(traffic), "label": label, "node": shard.node_id}, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def measure(
    graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, classes: int, world: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """One row of the table, and the labels."""
    with tempfile.TemporaryDirectory() as folder:
        report = write_problem(Path(folder), graph, y, mask, world)
        mp.spawn(run, (world, free_port(), classes, folder), nprocs=world)
        ranks = [torch.load(f"{folder}/{rank}.pt", weights_only=True) for rank in range(world)]
    label = torch.empty_like(y)
    for rank in ranks:
        label[rank["node"]] = rank["label"]
    most = {name: max(rank[name] for rank in ranks) for name in ("own", "halo", "peak", "whole")}
    width = 4 * classes
    # docs/scaling.md: the dual in 16 bits, the graph and the shard, thirty arrays of own rows and two of the halo.
    held = max(
        rank["slots"] * (2 * classes + 34) + 30 * width * rank["own"] + 2 * width * rank["halo"] for rank in ranks
    )
    row = {
        "processes": world,
        "own": most["own"],
        "halo": most["halo"],
        "edge cut": report.cut,
        "exchanges": ranks[0]["exchanges"],
        "MB per rank": sum(rank["bytes_sent"] + rank["bytes_received"] for rank in ranks) / world / 1e6,
        "model MB": 2 * sum(rank["halo"] for rank in ranks) * width * ranks[0]["exchanges"] / world / 1e6,
        "reductions": ranks[0]["reductions"],
        "kB reduced": ranks[0]["bytes_reduced"] / 1e3,
        "peak MB": most["peak"] / 1e6,
        "model peak MB": held / 1e6,
        "whole process MB": most["whole"] / 1e6,
    }
    return row, label


def table(options: argparse.Namespace, graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, head: str) -> None:
    """Counts on every number of processes."""
    rows: list[dict[str, object]] = []
    expected = None
    for world in options.worlds:
        row, label = measure(graph, y, mask, options.classes, world)
        expected = label if expected is None else expected
        rows.append({**row, "other labels": int((label != expected).sum())})
        print(rows[-1], flush=True)
    stem = "distributed" if graph.num_nodes == NODES else f"distributed_{graph.num_nodes}"
    machine.write_csv(rows, options.out / f"{stem}.csv")
    machine.write_text(f"{head}\n\n{_markdown(rows)}\n", options.out / f"{stem}.md")


def _busy() -> float:
    """Seconds that all cores have worked, for anybody, since the machine was started."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return float(sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # neither idle nor waiting for a disk


def take_turns(rank: int, ports: list[int], classes: int, alone: str, shared: str, out: str) -> None:
    """One process while the other waits, then both, as often as there are ports."""
    settle(classes)
    rows = []
    for port in ports:
        row = {}
        if rank == 0:
            shard, busy = open_shard(alone, 0, 1), _busy()
            row["one"], row["one, processor"] = timed(shard)
            row["one, others"] = (_busy() - busy - row["one, processor"]) / row["one"]
        join(rank, 2, port)
        shard = open_shard(shared, rank, 2)
        dist.barrier()
        busy = _busy()
        row["two"], used = timed(shard)
        busy = _busy() - busy
        both = [torch.zeros(2, dtype=torch.float64) for _ in range(2)]
        dist.all_gather(both, torch.tensor([row["two"], used], dtype=torch.float64))
        row["two"], row["two, processor"] = torch.stack(both).amax(dim=0).tolist()
        row["two, others"] = (busy - float(both[0][1] + both[1][1])) / row["two"]
        dist.destroy_process_group()
        rows.append(row)
    if rank == 0:
        torch.save(rows, out)


def speed(options: argparse.Namespace, graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, head: str) -> None:
    """The seconds of one process and of two, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        alone, shared = Path(folder, "1"), Path(folder, "2")
        write_problem(alone, graph, y, mask, 1)
        write_problem(shared, graph, y, mask, 2)
        ports = [free_port() for _ in range(options.repeats + 1)]
        given = (ports, options.classes, str(alone), str(shared), f"{folder}/rows.pt")
        mp.spawn(take_turns, given, nprocs=2)
        rows = torch.load(f"{folder}/rows.pt", weights_only=True)[1:]  # the first round reads files and code
    for row in rows:
        row["ratio"], row["ratio, processor"] = row["one"] / row["two"], row["one, processor"] / row["two, processor"]
        print(row, flush=True)
    table = [{"repeat": number, **row} for number, row in enumerate(rows, start=1)]
    quiet = [row for row in rows if max(row["one, others"], row["two, others"]) < 0.1]
    for name, of, some in (
        ("median", statistics.median, rows),
        ("least", min, rows),
        ("most", max, rows),
        (f"median of {len(quiet)} quiet", statistics.median, quiet),
    ):
        if some:
            table.append({"repeat": name, **{key: of(row[key] for row in some) for key in rows[0]}})
            print(table[-1], flush=True)
    machine.write_csv(table, options.out / "distributed_speed.csv")


def trace(options: argparse.Namespace, graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, head: str) -> None:
    """When the halo is under way, and what is computed meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        write_problem(Path(folder), graph, y, mask, 2)
        port = free_port()
        mp.spawn(trace_rank, (port, options.classes, folder), nprocs=2)
        ranks = [torch.load(f"{folder}/trace-{rank}.pt", weights_only=True) for rank in range(2)]
    rows = distributed_trace.summary(ranks)
    for row in rows:
        print(row, flush=True)
    machine.write_csv(rows, options.out / "distributed_trace.csv")
    distributed_trace.draw(ranks, (IMAGES if options.out == machine.RESULTS else options.out) / "distributed_trace.png")


def trace_rank(rank: int, port: int, classes: int, folder: str) -> None:
    """The moments of some iterations on one of two ranks."""
    settle(classes)
    join(rank, 2, port)
    torch.save(distributed_trace.iterations(open_shard(folder, rank, 2), classes), f"{folder}/trace-{rank}.pt")
    dist.destroy_process_group()


#: What can be measured.
PARTS = {"table": table, "speed": speed, "trace": trace}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["all", *PARTS], default="all", metavar="table|speed|trace")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("-k", type=int, default=20)
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=7, help="rounds of the comparison of one process and two")
    parser.add_argument("--quick", action="store_true", help="5,000 nodes on one and two processes")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.worlds, options.repeats = 5_000, [1, 2], 1
    graph, y, mask = make_problem(options.nodes, options.classes, options.k)
    head = f"{options.nodes:,} nodes, {graph.num_edges:,} edges, {options.classes} classes. {machine.describe()}"
    options.out.mkdir(parents=True, exist_ok=True)
    for part in PARTS if options.parts == "all" else options.parts:
        PARTS[part](options, graph, y, mask, head)


def _markdown(rows: list[dict[str, object]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for row in rows:
        lines.append("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
