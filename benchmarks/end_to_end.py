"""What a user waits for: features to labels, a call, a second call, one more label, a busy machine, many classes.

    python benchmarks/end_to_end.py                     # all parts; benchmarks/results/end_to_end.csv and .md
    python benchmarks/end_to_end.py --parts call busy   # some of them; rows of the others stay as they are
    python benchmarks/end_to_end.py --quick             # 5,000 rows, one round; writes end_to_end_quick.*

Fashion-MNIST as 128 principal components, k = 20, 1 % of the labels (seed 0). Within a part all calls are interleaved,
after a first call of each that is not counted. Processor seconds stand beside wall seconds: where other processes run
they say what a call costs, and the wall says what it took then. The load of the machine is in every row.

GraphLearning comes with the extra "bench"; its graph is made by Annoy (`pip install annoy`).
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from shared import fashion, machine
from tqdm import tqdm

from tg_crepe import LGC, CrepePropagation, PoissonMBO, knn_graph, prepare

Call = Callable[[], object]
Row = dict[str, object]

#: What every row is compared with in its part.
AGAINST = {
    "features": "scikit-learn LabelSpreading",
    "call": "quickest of GraphLearning",
    "busy": "CREPE, quiet",
    "graph": "faiss flat, bare",
    "lists": "faiss inverted lists, bare",
    "classes": "CREPE, 10 classes",
    "intents": "LGC, 150 classes",
    "demo": "demo, one thread",
}


class Data:
    """The features, the labels and the graph, made once."""

    def __init__(self, size: int) -> None:
        self.x, self.y = fashion.load(size)
        self.mask = fashion.choose_labels(self.y, size // 1000, seed=0)
        self.graph = knn_graph(self.x, 20, "cosine", "faiss")
        self.unit = torch.nn.functional.normalize(self.x, dim=1).numpy()
        self.labelled = self.mask.nonzero().view(-1).numpy()

    def error(self, label: object) -> float:
        """Wrong labels among the unlabelled, in per cent."""
        wrong = torch.as_tensor(np.asarray(label)) != self.y
        return 100 * float(wrong[~self.mask].double().mean())


def peers(data: Data, weight: sp.csr_matrix | None = None) -> dict[str, Call]:
    """GraphLearning's models on the given graph, where it is installed."""
    try:
        import graphlearning as gl
    except ImportError:
        print("GraphLearning is not installed (extra 'bench'), its rows are left out")
        return {}
    if weight is None:
        size = (len(data.y), len(data.y))
        weight = sp.csr_matrix((data.graph[1].double().numpy(), tuple(data.graph[0].numpy())), size)
    truth = data.y.numpy()[data.labelled]

    def make(name: str) -> Call:
        return lambda: getattr(gl.ssl, name)(weight).fit_predict(data.labelled, truth)

    return {f"GraphLearning {name}": make(name) for name in ("laplace", "randomwalk", "poisson")}


def features(data: Data) -> dict[str, Call]:
    """From features to labels, graph included."""

    def ours() -> object:
        graph = knn_graph(data.x, 20)
        return CrepePropagation().propagate(data.y, graph[0], data.mask, graph[1]).label

    def spreading() -> object:
        from sklearn.semi_supervised import LabelSpreading

        y = np.where(data.mask.numpy(), data.y.numpy(), -1)
        return LabelSpreading(kernel="knn", n_neighbors=20, max_iter=30).fit(data.unit, y).transduction_

    calls: dict[str, Call] = {"knn_graph and CREPE": ours, "scikit-learn LabelSpreading": spreading}
    try:
        import annoy  # noqa: F401
        import graphlearning as gl
    except ImportError:
        return calls

    def learning() -> object:
        weight = gl.weightmatrix.knn(data.unit, 20, knn_data=gl.weightmatrix.knnsearch(data.unit, 20, method="annoy"))
        return peers(data, weight)["GraphLearning randomwalk"]()

    return {**calls, "GraphLearning, Annoy and randomwalk": learning}


def call(data: Data) -> dict[str, Call]:
    """One call on a given graph, on a prepared one, and with one more label."""
    graph, model = prepare(*data.graph), CrepePropagation()
    first, more = model.propagate(data.y, graph, data.mask), data.mask.clone()
    more[int((~data.mask).nonzero()[len(data.y) // 2])] = True
    return {
        "CREPE": lambda: model.propagate(data.y, data.graph[0], data.mask, data.graph[1]).label,
        "CREPE, prepared graph": lambda: model.propagate(data.y, graph, data.mask).label,
        "CREPE, one more label": lambda: model.propagate(data.y, graph, more, start=first).label,
        "Poisson-MBO": lambda: PoissonMBO().propagate(data.y, graph, data.mask).label,
        **peers(data),
    }


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process that computes all the time."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def busy(data: Data) -> dict[str, Call]:
    """The same call alone and beside a busy loop."""
    graph, model = prepare(*data.graph), CrepePropagation()

    def beside() -> object:
        with busy_core():
            return model.propagate(data.y, graph, data.mask).label

    return {"CREPE, quiet": lambda: model.propagate(data.y, graph, data.mask).label, "CREPE, a busy core": beside}


def exact(data: Data) -> dict[str, Call]:
    """The exact graph beside the bare search."""
    faiss = __import__("faiss")

    def bare() -> None:
        index = faiss.IndexFlatL2(data.unit.shape[1])
        index.add(data.unit)
        index.search(data.unit, 21)

    return {
        "faiss flat, bare": bare,
        "knn_graph, exact": lambda: knn_graph(data.x, 20, "cosine", "faiss") and None,
    }


def lists(data: Data) -> dict[str, Call]:
    """The approximate graph beside a bare index of about the same recall."""
    faiss = __import__("faiss")

    def bare() -> None:
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(data.unit.shape[1]), data.unit.shape[1], 512)
        index.train(data.unit)
        index.add(data.unit)
        index.nprobe = 16
        index.search(data.unit, 21)

    return {
        "faiss inverted lists, bare": bare,
        "knn_graph, approximate": lambda: knn_graph(data.x, 20, "cosine", "approximate") and None,
    }


def blobs(nodes: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Overlapping clusters, a class each, and one label of every class: y, mask, edges and weights."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    centre = 1.2 * torch.randn(classes, 32, generator=generator)
    edge_index, weight = knn_graph(centre[y] + torch.randn(nodes, 32, generator=generator), 20, "euclidean", "faiss")
    return y, torch.arange(nodes) < classes, edge_index, weight


def classes(nodes: int, numbers: tuple[int, ...]) -> dict[str, Call]:
    """CREPE on one graph size with more and more classes, ten labels each as far as there are nodes."""

    def make(number: int) -> Call:
        y, _, edge_index, weight = blobs(nodes, number)
        graph, mask = prepare(edge_index, weight), torch.arange(nodes) < 10 * number
        return lambda: CrepePropagation().propagate(y, graph, mask, num_classes=number) and None

    return {f"CREPE, {number} classes": make(number) for number in numbers}


def intents(nodes: int, number: int = 150) -> dict[str, Call]:
    """Many classes with one label each, beside LGC."""
    y, mask, edge_index, weight = blobs(nodes, number)
    return {
        f"LGC, {number} classes": lambda: LGC().propagate(y, edge_index, mask, weight) and None,
        f"CREPE, {number} classes": lambda: CrepePropagation().propagate(y, edge_index, mask, weight) and None,
    }


def demo() -> dict[str, Call]:
    """The demo with the threads that torch takes, and with one; processor seconds are those of the child."""

    def start(**environment: str) -> Call:
        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(
                    [sys.executable, "-m", "tg_crepe", "demo", "--out", str(Path(folder, "demo"))],
                    env={**os.environ, **environment},
                    check=True,
                    capture_output=True,
                )

        return run

    return {"demo": start(), "demo, one thread": start(OMP_NUM_THREADS="1")}


def processor() -> float:
    """Processor seconds of this process and of the children that have ended, busy loops left out."""
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + child.ru_utime + child.ru_stime


def measure(part: str, calls: dict[str, Call], rounds: int, data: Data | None) -> list[Row]:
    """The calls of a part in turns; the first of each is not counted."""
    rows: list[Row] = []
    for turn in tqdm(range(rounds + 1), desc=part):
        for name, run in calls.items():
            children = "demo" in name
            wall, own = time.perf_counter(), processor() if children else time.process_time()
            answer = run()
            row: Row = {"part": part, "what": name, "round": turn, "seconds": time.perf_counter() - wall}
            row["processor"] = (processor() if children else time.process_time()) - own
            row["error"] = "" if answer is None or data is None else f"{data.error(answer):.3f}"
            row["load"] = os.getloadavg()[0]
            if turn:
                rows.append(row)
    return rows


def summary(rows: list[Row]) -> str:
    """One table per part: medians, ranges, and the ratio to what the part is compared with."""
    lines = [
        machine.describe(),
        "",
        "Medians and ranges; ratios to the row in italics of the same part, of processor seconds and of wall seconds.",
    ]
    for part in dict.fromkeys(str(row["part"]) for row in rows):
        own = [row for row in rows if row["part"] == part]
        names = list(dict.fromkeys(str(row["what"]) for row in own))

        def middle(name: str, column: str, own: list[Row] = own) -> float:
            return float(np.median([float(str(row[column])) for row in own if row["what"] == name]))

        base = AGAINST[part]
        if part == "call":
            base = min(
                (n for n in names if n.startswith("Graph")), key=lambda n: middle(n, "seconds"), default=names[0]
            )
        load = np.median([float(str(row["load"])) for row in own])
        lines += ["", f"## {part} (load {load:.1f})", ""]
        lines += ["| | wall s | range | processor s | ratio wall | ratio processor | error % |", "|---" * 7 + "|"]
        for name in names:
            wall = [float(str(row["seconds"])) for row in own if row["what"] == name]
            error = next(str(row["error"]) for row in own if row["what"] == name)
            ratios = (
                f"{middle(name, c) / middle(base, c):.2f}" if base in names else "–" for c in ("seconds", "processor")
            )
            shown = f"*{name}*" if name == base else name
            cells = [
                f"{middle(name, 'seconds'):.2f}",
                f"{min(wall):.2f}–{max(wall):.2f}",
                f"{middle(name, 'processor'):.2f}",
            ]
            lines.append(f"| {shown} | " + " | ".join([*cells, *ratios, error or "–"]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=list(AGAINST), default=list(AGAINST))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    size, rounds = (5_000, 1) if options.quick else (70_000, options.rounds)
    name = "end_to_end_quick" if options.quick else "end_to_end"
    path = machine.RESULTS / f"{name}.csv"
    data = Data(size) if {"features", "call", "busy", "graph", "lists"} & set(options.parts) else None
    make: dict[str, Callable[[], dict[str, Call]]] = {
        "features": lambda: features(data),  # type: ignore[arg-type]
        "call": lambda: call(data),  # type: ignore[arg-type]
        "busy": lambda: busy(data),  # type: ignore[arg-type]
        "graph": lambda: exact(data),  # type: ignore[arg-type]
        "lists": lambda: lists(data),  # type: ignore[arg-type]
        "classes": lambda: classes(size * 2 // 7, (2, 10, 77, 150)),
        "intents": lambda: intents(9_000),
        "demo": demo,
    }
    kept: list[Row] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [dict(row) for row in csv.DictReader(file) if row["part"] not in options.parts]
    for part in options.parts:
        kept += measure(part, make[part](), rounds, data if part in ("features", "call", "busy") else None)
        kept.sort(key=lambda row: list(AGAINST).index(str(row["part"])))
        machine.write_csv(kept, path)  # a part that is done stays if the next is interrupted
        machine.write_text(summary(kept), path.with_suffix(".md"))
    print(summary(kept))


if __name__ == "__main__":
    main()
