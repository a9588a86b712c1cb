"""What several processes tell each other, hold and take, against one.

    python benchmarks/distributed.py            # 100,000 nodes on 1, 2, 4 and 8 processes; writes results/distributed.*
    python benchmarks/distributed.py --quick    # 5,000 nodes on 1 and 2
    python benchmarks/distributed.py --nodes 700000 --worlds 1 4    # the memory of a large graph

Synthetic points in the plane, classes in stripes, the graph of the nearest neighbours by a k-d tree, 1 % of the labels;
parts are blocks along a space-filling order. Every process has one thread and is started anew, and its peak is what it
needs above what the imports took. Bytes are those of all halo exchanges of one rank; the seconds of more processes
than there are cores say nothing and are left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from scipy.spatial import cKDTree

from tg_crepe import CrepePropagation
from tg_crepe.distributed import Traffic, open_shard, propagate, write_shards
from tg_crepe.distributed.shard import cut_shard
from tg_crepe.graph import CanonicalGraph, canonical_graph


def make_problem(nodes: int, classes: int, k: int) -> tuple[CanonicalGraph, torch.Tensor, torch.Tensor]:
    """A graph whose nodes are in the order of a curve through the plane, their classes, and which are labelled."""
    rng = np.random.default_rng(100)
    x = rng.random((nodes, 2))
    cells = (x * (1 << 15)).astype(np.int64)
    x = x[np.argsort(_interleaved(cells[:, 0]) | (_interleaved(cells[:, 1]) << 1))]
    distance, index = cKDTree(x).query(x, k + 1)
    weight = torch.from_numpy(np.exp(-4 * (distance[:, 1:] / distance[:, -1:]) ** 2).ravel()).float()
    pairs = torch.from_numpy(np.stack([np.repeat(np.arange(nodes), k), index[:, 1:].ravel()]))
    graph, _ = canonical_graph(pairs, weight, nodes)
    y = torch.from_numpy((x[:, 0] * classes).astype(np.int64).clip(max=classes - 1))
    return graph, y, torch.from_numpy(rng.random(nodes) < 0.01)


def _interleaved(x: np.ndarray) -> np.ndarray:
    """The bits of 16-bit numbers with a zero after each."""
    for shift, keep in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        x = (x | (x << shift)) & keep
    return x


def run(rank: int, world: int, port: int, folder: str, out: str) -> None:
    """What one process does: it opens its shard, infers its labels and leaves what it has counted."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    shard = open_shard(folder, rank, world)
    _warm_up(int(shard.num_classes or 2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    traffic = Traffic()
    dist.barrier()
    start = time.perf_counter()
    result = propagate(CrepePropagation(), shard, traffic=traffic)
    dist.barrier()
    seconds = time.perf_counter() - start
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    counted = {"own": shard.num_own, "halo": shard.num_halo, "seconds": seconds, "peak": peak, **asdict(traffic)}
    torch.save({**counted, "label": result.label, "node": shard.node_id}, f"{out}/{rank}.pt")
    dist.destroy_process_group()


def _warm_up(classes: int) -> None:
    """Reads the compiled code, by a ring of nodes."""
    node = torch.arange(8 * classes)
    ring = torch.stack([node, node.roll(1)])
    CrepePropagation().propagate(node % classes, ring, node < 4 * classes)


def measure(
    graph: CanonicalGraph, y: torch.Tensor, mask: torch.Tensor, world: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """One row of the table, and the labels."""
    owner = torch.arange(graph.num_nodes) * world // graph.num_nodes
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        report = write_shards(folder, (cut_shard(graph, owner, rank, world, y, mask) for rank in range(world)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(run, (world, port, folder, out), nprocs=world)
        ranks = [torch.load(f"{out}/{rank}.pt", weights_only=True) for rank in range(world)]
    label = torch.empty_like(y)
    for rank in ranks:
        label[rank["node"]] = rank["label"]
    most = {name: max(rank[name] for rank in ranks) for name in ("own", "halo", "peak", "seconds")}
    exchanged = sum(rank["bytes_sent"] + rank["bytes_received"] for rank in ranks)
    row = {
        "processes": world,
        "own": most["own"],
        "halo": most["halo"],
        "edge cut": report.cut,
        "exchanges": ranks[0]["exchanges"],
        "MB a rank": exchanged / world / 1e6,
        "reductions": ranks[0]["reductions"],
        "peak MB": most["peak"] / 1e6,
        "seconds": most["seconds"] if world <= (os.cpu_count() or 1) else float("nan"),
    }
    return row, label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("-k", type=int, default=20)
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--quick", action="store_true", help="5,000 nodes on one and two processes")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    nodes, worlds = (5_000, [1, 2]) if options.quick else (options.nodes, options.worlds)
    graph, y, mask = make_problem(nodes, options.classes, options.k)
    rows: list[dict[str, object]] = []
    expected = None
    for world in worlds:
        row, label = measure(graph, y, mask, world)
        expected = label if expected is None else expected
        rows.append({**row, "other labels": int((label != expected).sum())})
        print(rows[-1], flush=True)
    head = f"{nodes:,} nodes, {graph.num_edges:,} edges, {options.classes} classes. {machine.describe()}"
    options.out.mkdir(parents=True, exist_ok=True)
    machine.write_csv(rows, options.out / "distributed.csv")
    machine.write_text(f"{head}\n\n{_table(rows)}\n", options.out / "distributed.md")


def _table(rows: list[dict[str, object]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for row in rows:
        lines.append("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
