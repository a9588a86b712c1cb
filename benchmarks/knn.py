"""The searches behind knn_graph on 70,000 x 128 Fashion-MNIST features, k = 20, beside the bare faiss calls.

    python benchmarks/knn.py            # writes benchmarks/results/knn.csv and knn.md
    python benchmarks/knn.py --quick    # 7,000 images

Interleaved in one run. Recall is the share of the exact neighbours that an answer holds, on 1,000 rows; ours are exact,
HNSW (M = 32, efSearch = 64) is there to show what an approximate search would save at this size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import faiss
import fashion
import machine
import numpy as np
import torch

from tg_crepe import knn_graph
from tg_crepe.graph.neighbors import nearest_neighbors

K = 20


def bare_flat(x: np.ndarray) -> np.ndarray:
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return index.search(x, K + 1)[1]


def bare_hnsw(x: np.ndarray) -> np.ndarray:
    index = faiss.IndexHNSWFlat(x.shape[1], 32)
    index.hnsw.efSearch = 64
    index.add(x)
    return index.search(x, K + 1)[1]


def recall(found: np.ndarray, exact: np.ndarray) -> float:
    rows = np.random.default_rng(0).choice(len(exact), min(1000, len(exact)), replace=False)
    return float(np.mean([np.isin(exact[i], found[i]).mean() for i in rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="7,000 images; writes knn_quick.*")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    x, _ = fashion.load(7_000 if options.quick else 70_000)
    array = x.numpy()
    calls: dict[str, Callable[[], object]] = {
        "faiss flat, bare": lambda: bare_flat(array),
        "faiss HNSW, bare": lambda: bare_hnsw(array),
        "knn_graph, faiss": lambda: knn_graph(x, K, metric="euclidean", backend="faiss"),
        "knn_graph, torch": lambda: knn_graph(x, K, metric="euclidean", backend="torch"),
    }
    exact = nearest_neighbors(x, K, "torch", 256)[0].numpy()
    found = {
        "faiss flat, bare": bare_flat(array),
        "faiss HNSW, bare": bare_hnsw(array),
        "knn_graph, faiss": nearest_neighbors(x, K, "faiss", 256)[0].numpy(),
        "knn_graph, torch": exact,
    }
    rows: list[dict[str, object]] = []
    for repeat in range(options.repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            rows.append({"search": name, "repeat": repeat, "seconds": seconds, "recall": recall(found[name], exact)})
    name = "knn_quick" if options.quick else "knn"
    machine.write_csv(rows, machine.RESULTS / f"{name}.csv")
    median = {n: float(np.median([float(str(r["seconds"])) for r in rows if r["search"] == n])) for n in calls}
    lines = [machine.describe(), "", f"{len(x):,} × {x.size(1)}, k = {K}, {torch.get_num_threads()} threads", ""]
    lines += ["| search | seconds | of bare faiss | recall |", "|---|---|---|---|"]
    for n, seconds in median.items():
        share = next(r["recall"] for r in rows if r["search"] == n)
        lines.append(f"| {n} | {seconds:.1f} | {seconds / median['faiss flat, bare']:.2f} | {share:.4f} |")
    text = "\n".join(lines) + "\n"
    machine.write_text(text, machine.RESULTS / f"{name}.md")
    print(text)


if __name__ == "__main__":
    main()
