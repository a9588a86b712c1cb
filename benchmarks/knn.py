"""The searches behind knn_graph, k = 20, beside the bare faiss calls: seconds and recall on three kinds of features.

    python benchmarks/knn.py            # writes benchmarks/results/knn.csv, knn.md and knn.png
    python benchmarks/knn.py --quick    # two minutes, small sizes; writes knn_quick.*

Features of 128 numbers: Fashion-MNIST (principal components), 50 clusters of about 12 dimensions each, and a Gaussian
without any structure. The searches of a case are interleaved. Recall is the share of the true neighbours found, ties by
distance counting as right, on 1,000 rows other than those on which knn_graph measures its own. HNSW (M = 32, efSearch =
64) is what an approximate index of faiss would take; built by several threads it differs from run to run. Beyond
100,000 rows the flat index is timed on 2,000 queries and marked ≈.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import torch
from shared import fashion, machine

from tg_crepe import GraphWarning, knn_graph
from tg_crepe.graph.approximate import approximate_neighbors
from tg_crepe.graph.neighbors import nearest_neighbors

K = 20
LARGE = 100_000
QUERIES = 2_000
FLAT, HNSW, HNSW_ONE = "faiss flat, bare", "faiss HNSW, bare", "faiss HNSW, bare, built by one thread"
OURS = {f"knn_graph, {backend}": backend for backend in ("faiss", "torch", "approximate")}
CASES = [
    ("Fashion-MNIST", 70_000),
    ("Gaussian", 20_000),
    ("clusters", 20_000),
    ("clusters", 70_000),
    ("clusters", 200_000),
]
QUICK_CASES = [("Fashion-MNIST", 7_000), ("Gaussian", 7_000), ("clusters", 7_000), ("clusters", 20_000)]


def clusters(num_nodes: int, num_clusters: int = 50, inner: int = 12, noise: float = 0.05) -> torch.Tensor:
    """Overlapping Gaussians, each in its own 12 dimensions of the 128, with a little noise in all."""
    generator = torch.Generator().manual_seed(0)
    centre = 0.5 * torch.randn(num_clusters, 128, generator=generator)
    basis = torch.randn(num_clusters, inner, 128, generator=generator) / inner**0.5
    cluster = torch.randint(num_clusters, (num_nodes,), generator=generator)
    x = noise * torch.randn(num_nodes, 128, generator=generator)
    for c in range(num_clusters):
        rows = (cluster == c).nonzero().view(-1)
        x[rows] += centre[c] + torch.randn(rows.numel(), inner, generator=generator) @ basis[c]
    return x


def features(kind: str, num_nodes: int) -> torch.Tensor:
    if kind == "Fashion-MNIST":
        return fashion.load(num_nodes)[0]
    if kind == "Gaussian":
        return torch.randn(num_nodes, 128, generator=torch.Generator().manual_seed(0))
    return clusters(num_nodes)


def bare_flat(x: np.ndarray, queries: np.ndarray) -> np.ndarray:
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return index.search(queries, K + 1)[1]


def bare_hnsw(x: np.ndarray, build_threads: int) -> np.ndarray:
    threads = faiss.omp_get_max_threads()
    index = faiss.IndexHNSWFlat(x.shape[1], 32)
    index.hnsw.efSearch = 64
    faiss.omp_set_num_threads(build_threads)
    index.add(x)
    faiss.omp_set_num_threads(threads)
    return index.search(x, K + 1)[1]


def recall(x: torch.Tensor, rows: torch.Tensor, found: torch.Tensor, width: torch.Tensor) -> float:
    """The share of neighbours, the row itself left out, that are no farther than the K-th true one."""
    distance = (x[rows].double().unsqueeze(1) - x[found].double()).norm(dim=2)
    distance[found == rows.unsqueeze(1)] = float("inf")
    nearest = distance.sort(dim=1)[0][:, :K]
    return float((nearest <= width * (1 + 1e-12)).double().mean())


def run_case(kind: str, num_nodes: int, repeats: int) -> list[dict[str, object]]:
    x = features(kind, num_nodes)
    array, large = x.numpy(), num_nodes > LARGE
    queries = array[:QUERIES] if large else array
    calls: dict[str, Callable[[], object]] = {
        FLAT: lambda: bare_flat(array, queries),
        HNSW: lambda: bare_hnsw(array, faiss.omp_get_max_threads()),
    }
    if not large:
        calls[HNSW_ONE] = lambda: bare_hnsw(array, 1)
    for name, backend in OURS.items():
        if backend == "approximate" or not large:
            calls[name] = lambda backend=backend: knn_graph(x, K, metric="euclidean", backend=backend)
    rows = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(1))[:1000]
    true_neighbor, distance = nearest_neighbors(x, K, "torch", 256, rows)
    width = distance[:, -1:]
    found = {
        FLAT: torch.from_numpy(bare_flat(array, array[rows.numpy()])),
        "knn_graph, faiss": nearest_neighbors(x, K, "faiss", 256, rows)[0],
        "knn_graph, torch": true_neighbor,
        "knn_graph, approximate": approximate_neighbors(x, K, 0.99, 256)[0][rows],
    }
    results: list[dict[str, object]] = []
    for repeat in range(1 if large else repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            answer = call()
            seconds = time.perf_counter() - start
            if name == FLAT:
                seconds *= num_nodes / len(queries)
            elif isinstance(answer, np.ndarray):
                found[name] = torch.from_numpy(answer)[rows]
            share = recall(x, rows, found[name], width)
            row = {"data": kind, "nodes": num_nodes, "search": name, "repeat": repeat}
            results.append({**row, "seconds": seconds, "recall": share})
    return results


def median(results: list[dict[str, object]], kind: str, num_nodes: int, search: str) -> float | None:
    chosen = [r for r in results if (r["data"], r["nodes"], r["search"]) == (kind, num_nodes, search)]
    return float(np.median([float(str(r["seconds"])) for r in chosen])) if chosen else None


def table(results: list[dict[str, object]], cases: list[tuple[str, int]], repeats: int) -> str:
    threads = torch.get_num_threads()
    setting = f"128 features, k = {K}, {threads} threads, median of {repeats} (beyond {LARGE:,} nodes one run)"
    lines = [machine.describe(), "", setting, ""]
    lines += ["| data | nodes | search | seconds | of bare faiss flat | recall |", "|---|---|---|---|---|---|"]
    for kind, num_nodes in cases:
        flat = median(results, kind, num_nodes, FLAT)
        for search in (FLAT, HNSW, HNSW_ONE, *OURS):
            seconds = median(results, kind, num_nodes, search)
            if seconds is None or flat is None:
                continue
            share = next(
                r["recall"] for r in results if (r["data"], r["nodes"], r["search"]) == (kind, num_nodes, search)
            )
            about = "≈ " if search == FLAT and num_nodes > LARGE else ""
            lines.append(
                f"| {kind} | {num_nodes:,} | {search} | {about}{seconds:.1f} | {seconds / flat:.2f} | {share:.4f} |"
            )
    return "\n".join(lines) + "\n"


def draw(results: list[dict[str, object]], cases: list[tuple[str, int]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [num_nodes for kind, num_nodes in cases if kind == "clusters"]
    colors = ("#000000", "#56B4E9", "#0072B2", "#E69F00", "#CC79A7", "#009E73")
    for search, marker, color in zip((FLAT, HNSW, HNSW_ONE, *OURS), "osv^Dp", colors, strict=True):
        points = [(n, s) for n in sizes if (s := median(results, "clusters", n, search)) is not None]
        axes.loglog(*zip(*points, strict=True), marker=marker, color=color, label=search)
    axes.set_xlabel("nodes (50 clusters, 128 features)")
    axes.set_ylabel("seconds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes knn_quick.*")
    parser.add_argument("--repeats", type=int, default=3, help="beyond 100,000 nodes it is one")
    options = parser.parse_args()
    warnings.simplefilter("ignore", GraphWarning)  # the recall is in the table
    cases = QUICK_CASES if options.quick else CASES
    name = "knn_quick" if options.quick else "knn"
    results: list[dict[str, object]] = []
    for kind, num_nodes in cases:
        results += run_case(kind, num_nodes, options.repeats)
        machine.write_csv(results, machine.RESULTS / f"{name}.csv")  # a long run keeps what it has
    text = table(results, cases, options.repeats)
    machine.write_text(text, machine.RESULTS / f"{name}.md")
    draw(results, cases, machine.RESULTS / f"{name}.png")
    print(text)


if __name__ == "__main__":
    main()
