"""How seconds and memory of CREPE grow with nodes, classes and neighbours.

    python benchmarks/scaling.py            # writes benchmarks/results/scaling.csv, scaling.md, scaling.png
    python benchmarks/scaling.py --quick    # small sizes, within two minutes

Synthetic points in three dimensions, classes in slabs, the graph of the exact nearest neighbours by a k-d tree, 1 % of
the labels. Every case runs in a process of its own (peak memory is a process's); a first small call compiles. The
exponent is the slope of log(seconds) over log(edges x classes), the peak is what the call needs above its inputs,
beside a dual in 32 bits, of which the flow keeps 16.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree
from shared import machine

from tg_crepe.graph import canonical_graph

CASE = """
import ctypes, json, sys, time, warnings
warnings.simplefilter("ignore")
from scaling import make
from tg_crepe import CrepePropagation

nodes, classes, k = map(int, sys.argv[1:4])

def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

model = CrepePropagation()
model.propagate(*make(max(2000, 20 * classes), classes, k))
arguments = make(nodes, classes, k)
ctypes.CDLL(None).malloc_trim(0)  # what the first calls freed must not hide what this one needs
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = status("VmRSS")
start, own = time.perf_counter(), time.process_time()
result = model.propagate(*arguments)
seconds, processor = time.perf_counter() - start, time.process_time() - own
peak = status("VmHWM") - before
edges = arguments[1].size(1) // 2
error = 100 * float((result.label != arguments[0])[~arguments[2]].double().mean())
iterations = int(result.trace["inner_iterations"].sum())
print(json.dumps(dict(nodes=nodes, classes=classes, k=k, edges=edges, seconds=seconds, processor=processor,
                      peak_gb=peak / 1e9, dual_gb=2 * edges * classes * 4 / 1e9, iterations=iterations, error=error)))
"""


def make(nodes: int, classes: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Points in three dimensions, classes in slabs: y, edges in both directions, the labelled nodes and the weights."""
    rng = np.random.default_rng(0)
    x = rng.random((nodes, 3))
    distance, index = cKDTree(x).query(x, k + 1, workers=2)
    weight = np.exp(-4 * (distance[:, 1:] / distance[:, -1:]) ** 2)
    pairs = torch.from_numpy(np.stack([np.repeat(np.arange(nodes), k), index[:, 1:].ravel()]))
    graph, _ = canonical_graph(pairs, torch.from_numpy(weight.ravel()).float(), nodes)
    y = torch.from_numpy((x[:, 0] * classes).astype(np.int64).clip(max=classes - 1))
    mask = torch.from_numpy(rng.random(nodes) < 0.01)
    mask[[int((y == c).nonzero()[0]) for c in range(classes)]] = True
    edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    return y, edges, mask, torch.cat([graph.edge_weight, graph.edge_weight])


def run(nodes: int, classes: int, k: int) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", "-c", CASE, str(nodes), str(classes), str(k)]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{nodes} nodes, {classes} classes, k = {k}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


#: Graphs of fewer nodes take no part in the exponents: what a call costs in any case is most of theirs.
LEAST_NODES = 5_000


def exponent(rows: list[dict[str, object]], what: str) -> float:
    """The slope of log(what) over log(edges x classes)."""
    rows = [r for r in rows if int(str(r["nodes"])) >= LEAST_NODES]
    size = [float(str(r["edges"])) * float(str(r["classes"])) for r in rows]
    return float(np.polyfit(np.log(size), np.log([float(str(r[what])) for r in rows]), 1)[0])


def draw(series: dict[str, list[dict[str, object]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, what, label in zip(
        figure.subplots(1, 2), ("seconds", "peak_gb"), ("seconds", "peak memory (GB)"), strict=True
    ):
        for (name, rows), marker, color in zip(series.items(), "os^", ("#0072B2", "#E69F00", "#009E73"), strict=True):
            size = [float(str(r["edges"])) * float(str(r["classes"])) for r in rows]
            axes.loglog(size, [float(str(r[what])) for r in rows], marker=marker, color=color, label=f"growing {name}")
        axes.set_xlabel("edges × classes")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def write(series: dict[str, list[dict[str, object]]], name: str) -> None:
    """The table, the text and the picture."""
    machine.write_csv(
        [{"series": s, **row} for s, rows in series.items() for row in rows], machine.RESULTS / f"{name}.csv"
    )
    lines = [
        machine.describe(),
        "",
        "| growing | nodes | classes | k | edges | seconds | iterations | peak GB | peak / dual in 32 bits |",
        "|---" * 9 + "|",
    ]
    for s, rows in series.items():
        for r in rows:
            ratio = float(str(r["peak_gb"])) / float(str(r["dual_gb"]))
            lines.append(
                f"| {s} | {r['nodes']:,} | {r['classes']} | {r['k']} | {r['edges']:,} | {r['seconds']:.2f} "
                f"| {r['iterations']} | {r['peak_gb']:.2f} | {ratio:.2f} |"
            )
    lines += ["", "Exponents over edges × classes:", ""]
    lines += [
        f"- growing {s}: seconds {exponent(rows, 'seconds'):.2f}, peak memory {exponent(rows, 'peak_gb'):.2f}"
        for s, rows in series.items()
    ]
    text = "\n".join(lines) + "\n"
    machine.write_text(text, machine.RESULTS / f"{name}.md")
    draw(series, machine.RESULTS / f"{name}.png")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes scaling_quick.*")
    options = parser.parse_args()
    if options.quick:
        sizes, base, classes, neighbours = (5_000, 10_000, 20_000), 10_000, (2, 10, 30), (5, 10, 20)
    else:
        sizes, base, classes, neighbours = (
            (1_000, 7_000, 20_000, 70_000, 200_000, 700_000, 1_000_000, 5_000_000, 10_000_000),
            70_000,
            (2, 5, 10, 30, 100),
            (5, 10, 20, 50),
        )
    series = {
        "nodes": [run(n, 10, 20) for n in sizes],
        "classes": [run(base, c, 20) for c in classes],
        "k": [run(base, 10, k) for k in neighbours],
    }
    write(series, "scaling_quick" if options.quick else "scaling")


if __name__ == "__main__":
    main()
