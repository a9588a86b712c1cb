"""What a user waits for: features to labels, a call, a second call, one more label, a busy machine, many classes.

    python benchmarks/end_to_end.py                     # all parts; benchmarks/results/end_to_end.csv and .md
    python benchmarks/end_to_end.py --parts call busy   # some of them; rows of the others stay as they are
    python benchmarks/end_to_end.py --parts million     # a million made rows of 128 features; not in the others
    python benchmarks/end_to_end.py --parts "a million nodes"          # calls on a graph of a million; neither
    python benchmarks/end_to_end.py --quick             # 5,000 rows, one round; writes end_to_end_quick.*

Fashion-MNIST as 128 principal components, k = 20, 1 % of the labels (seed 0). Within a part all calls are interleaved,
after a first call of each that is not counted. Processor seconds stand beside wall seconds: where other processes run
they say what a call costs, and the wall says what it took then. The load of the machine is in every row, and what an
answer is worth: its error, the recall of a search, the peak of the memory beside the stored dual, whether the bits are
those of one thread. That labels are what they were is for `benchmarks/fixed_cases.py` to say.

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
import scaling
import scipy.sparse as sp
import torch
from shared import fashion, machine
from tqdm import tqdm

from tg_crepe import LGC, CrepePropagation, PoissonMBO, knn_graph, prepare
from tg_crepe.models import PropagationResult

Call = Callable[[], object]
Row = dict[str, object]

#: What every row is compared with in its part.
AGAINST = {
    "features": "scikit-learn LabelSpreading",
    "call": "quickest of GraphLearning",
    "busy": "CREPE, quiet",
    "threads": "CREPE, one thread",
    "graph": "faiss flat, bare",
    "lists": "quickest of faiss at this recall",
    "classes": "CREPE, 10 classes",
    "intents": "LGC, 150 classes",
    "memory": "CREPE, 700,000 nodes",
    "demo": "demo, one thread",
    "1,000 rows": "GraphLearning randomwalk",
    "10,000 rows": "GraphLearning randomwalk",
    "a million nodes": "GraphLearning randomwalk",
    "million": "knn_graph, a million rows",
}


#: The parts that are about the features.
DATA_PARTS = {"features", "call", "busy", "threads", "graph", "lists"}


#: Rows of the parts that compare with peers on less than all of the images.
SIZES = {"1,000 rows": 1_000, "10,000 rows": 10_000}

#: Parts that are measured once, and without a first call that does not count: they take minutes.
LONG = ("memory", "million", "a million nodes")


class Data:
    """The features, the labels and the graph, made once."""

    def __init__(self, size: int) -> None:
        self.x, self.y = fashion.load(size)
        self.mask = fashion.choose_labels(self.y, max(size // 1000, 5), seed=0)
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
    """The same calls alone and beside a busy loop."""
    graph, model = prepare(*data.graph), CrepePropagation()
    found = features(data)
    alone: dict[str, Call] = {
        "CREPE": lambda: model.propagate(data.y, graph, data.mask).label,
        **{name: run for name, run in peers(data).items() if name.endswith("randomwalk")},
        **{name: found[name] for name in ("knn_graph and CREPE", "scikit-learn LabelSpreading")},
    }

    def beside(run: Call) -> Call:
        def both() -> object:
            with busy_core():
                return run()

        return both

    calls: dict[str, Call] = {}
    for name, run in alone.items():
        calls |= {f"{name}, quiet": run, f"{name}, a busy core": beside(run)}
    return calls


def sized(data: Data) -> dict[str, Call]:
    """Features to labels, and calls on a given graph."""
    return {**features(data), **{name: run for name, run in call(data).items() if name != "Poisson-MBO"}}


def million_nodes(nodes: int) -> dict[str, Call]:
    """Calls on the graph of :mod:`scaling`, beside those of others."""
    y, edge_index, mask, weight = scaling.make(nodes, 10, 20)
    graph = prepare(edge_index, weight)
    matrix = sp.csr_matrix((weight.double().numpy(), tuple(edge_index.numpy())), (nodes, nodes))
    data = object.__new__(Data)
    data.y, data.mask, data.labelled = y, mask, mask.nonzero().view(-1).numpy()

    def told(run: Call) -> Call:
        return lambda: f"error {data.error(run()):.2f} %"

    return {
        "CREPE": told(lambda: CrepePropagation().propagate(y, edge_index, mask, weight).label),
        "CREPE, prepared graph": told(lambda: CrepePropagation().propagate(y, graph, mask).label),
        **{name: told(run) for name, run in peers(data, matrix).items()},
    }


def threads(data: Data) -> dict[str, Call]:
    """A call on one thread and on two, which must give the same bits."""
    graph, model = prepare(*data.graph), CrepePropagation()

    def on(number: int) -> Call:
        def run() -> object:
            before = torch.get_num_threads()
            torch.set_num_threads(number)
            try:
                return model.propagate(data.y, graph, data.mask)
            finally:
                torch.set_num_threads(before)

        return run

    return {"CREPE, one thread": on(1), "CREPE, two threads": on(2)}


def exact(data: Data) -> dict[str, Call]:
    """The exact graph beside the bare search."""
    faiss = __import__("faiss")

    def bare() -> object:
        index = faiss.IndexFlatL2(data.unit.shape[1])
        index.add(data.unit)
        return index.search(data.unit, 21)[1]

    return {
        "faiss flat, bare": bare,
        "knn_graph, exact": lambda: knn_graph(data.x, 20, "cosine", "faiss"),
    }


def lists(data: Data) -> dict[str, Call]:
    """The approximate graph beside bare indexes of about its recall, and of less and more."""
    faiss = __import__("faiss")
    width = data.unit.shape[1]

    def inverted(number: int, probes: int) -> Call:
        def run() -> object:
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, number)
            index.train(data.unit)
            index.add(data.unit)
            index.nprobe = probes
            return index.search(data.unit, 21)[1]

        return run

    def graph(links: int, reach: int) -> Call:
        def run() -> object:
            index = faiss.IndexHNSWFlat(width, links)
            index.hnsw.efConstruction, index.hnsw.efSearch = 40, reach
            index.add(data.unit)
            return index.search(data.unit, 21)[1]

        return run

    settings = ((512, 8), (512, 12), (512, 16), (1024, 16), (1024, 24))
    return {
        **{f"faiss, {number} lists, {probes} probes": inverted(number, probes) for number, probes in settings},
        **{f"faiss HNSW, {links} links, reach {reach}": graph(links, reach) for links, reach in ((16, 64), (32, 48))},
        "knn_graph, approximate": lambda: knn_graph(data.x, 20, "cosine", "approximate"),
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


def memory(nodes: int) -> dict[str, Call]:
    """Peak memory of a call above its inputs, in a process of its own."""
    return {f"CREPE, {nodes:,} nodes": lambda: scaling.run(nodes, 10, 20)}


def million(rows: int) -> dict[str, Call]:
    """Made features to labels: overlapping classes in 128 dimensions, of 16 degrees of freedom each."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(rows) % 10
    centre, mixing = torch.randn(10, 16, generator=generator), torch.randn(16, 128, generator=generator) / 4
    x = (0.8 * centre[y] + torch.randn(rows, 16, generator=generator)) @ mixing
    x += 0.1 * torch.randn(rows, 128, generator=generator)
    mask, kept = torch.arange(rows) < rows // 100, {}

    def graph() -> object:
        kept["graph"] = knn_graph(x, 20, "euclidean")
        return f"recall {kept['graph'].recall:.4f}" if kept["graph"].recall else "exact"

    def label() -> object:
        found = CrepePropagation().propagate(y, kept["graph"][0], mask, kept["graph"][1]).label
        return f"error {100 * float((found != y)[~mask].double().mean()):.2f} %"

    return {f"knn_graph, {'a million' if rows == 1_000_000 else rows} rows": graph, "CREPE on it": label}


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


class Notes:
    """What the answers of a part are worth, as a text."""

    def __init__(self, part: str, data: Data | None) -> None:
        self.part, self.data = part, data
        self.first: PropagationResult | None = None
        self.true: np.ndarray | None = None

    def of(self, answer: object) -> str:
        """The text of an answer."""
        if isinstance(answer, str):
            return answer
        if isinstance(answer, dict):  # of a case of scaling.py
            return f"peak {answer['peak_gb'] / answer['dual_gb']:.2f} × a dual in 32 bits"
        if self.data is None or answer is None:
            return ""
        if isinstance(answer, PropagationResult):
            self.first = self.first or answer
            same = all(torch.equal(getattr(answer, n), getattr(self.first, n)) for n in ("u", "label", "prob"))
            return "same bits" if same else "OTHER BITS"
        if self.part in ("graph", "lists"):
            return f"recall {self.recall(answer):.4f}"
        return f"error {self.data.error(answer):.2f} %"

    def recall(self, answer: object) -> float:
        """The share of the true neighbours of a thousand rows that a search or a graph has."""
        assert self.data is not None
        rows = np.arange(0, len(self.data.y), max(1, len(self.data.y) // 1000))
        if self.true is None:
            faiss = __import__("faiss")
            index = faiss.IndexFlatL2(self.data.unit.shape[1])
            index.add(self.data.unit)
            found = index.search(self.data.unit[rows], 21)[1]
            self.true = np.stack([own[own != row][:20] for own, row in zip(found, rows, strict=True)])
        if isinstance(answer, np.ndarray):
            near = [set(answer[row].tolist()) for row in rows]
        else:
            graph = sp.csr_matrix((np.ones(answer[1].numel(), np.int8), tuple(answer[0].numpy())))  # type: ignore[index]
            near = [set(graph.indices[graph.indptr[row] : graph.indptr[row + 1]].tolist()) for row in rows]
        return float(np.mean([len(own & set(true.tolist())) / 20 for own, true in zip(near, self.true, strict=True)]))


def measure(part: str, calls: dict[str, Call], rounds: int, data: Data | None) -> list[Row]:
    """The calls of a part in turns; the first of each is not counted, but of those that take minutes."""
    rows: list[Row] = []
    notes = Notes(part, data)
    for turn in tqdm(range(1, 2) if part in LONG else range(rounds + 1), desc=part):
        for name, run in calls.items():
            children = part in ("demo", "memory")
            wall, own = time.perf_counter(), processor() if children else time.process_time()
            answer = run()
            seconds = time.perf_counter() - wall
            used = (processor() if children else time.process_time()) - own
            if isinstance(answer, dict):  # the call alone, without what it takes to make the graph
                seconds, used = answer["seconds"], answer["processor"]
            row: Row = {"part": part, "what": name, "round": turn, "seconds": seconds, "processor": used}
            row |= {"note": notes.of(answer), "load": os.getloadavg()[0]}
            if turn:
                rows.append(row)
    return rows


def base_of(part: str, own: list[Row], middle: Callable[[str, str], float]) -> str:
    """What the rows of a part are compared with."""
    names = list(dict.fromkeys(str(row["what"]) for row in own))
    if part == "call":
        return min((n for n in names if n.startswith("Graph")), key=lambda n: middle(n, "processor"), default=names[0])
    if part == "lists":
        recall = {str(row["what"]): float(str(row["note"]).split()[-1]) for row in own}
        least = min(recall["knn_graph, approximate"] - 0.001, 0.99)
        near = [n for n in names if n.startswith("faiss") and recall[n] >= least]
        return min(near, key=lambda n: middle(n, "processor"), default=names[0])
    return AGAINST[part]


def summary(rows: list[Row]) -> str:
    """One table per part: medians, ranges, and the ratio to what the part is compared with."""
    lines = [
        machine.describe(),
        "",
        "Medians and ranges; ratios to the row in italics of the same part, of wall seconds and of processor seconds.",
    ]
    for part in dict.fromkeys(str(row["part"]) for row in rows):
        own = [row for row in rows if row["part"] == part]

        def values(name: str, column: str, own: list[Row] = own) -> list[float]:
            return [float(str(row[column])) for row in own if row["what"] == name]

        def middle(name: str, column: str, values: Callable[[str, str], list[float]] = values) -> float:
            return float(np.median(values(name, column)))

        base = base_of(part, own, middle)
        names = list(dict.fromkeys(str(row["what"]) for row in own))
        load = np.median([float(str(row["load"])) for row in own])
        lines += ["", f"## {part} (load {load:.1f})", ""]
        lines += ["| | wall s | range | processor s | range | ratio wall | ratio processor | |", "|---" * 8 + "|"]
        for name in names:
            cells = []
            for column in ("seconds", "processor"):
                all_of = values(name, column)
                cells += [f"{np.median(all_of):.2f}", f"{min(all_of):.2f}–{max(all_of):.2f}"]
            for column in ("seconds", "processor"):
                cells.append(f"{middle(name, column) / middle(base, column):.2f}" if base in names else "–")
            note = next(str(row["note"]) for row in own if row["what"] == name)
            shown = f"*{name}*" if name == base else name
            lines.append(f"| {shown} | " + " | ".join([*cells, note or "–"]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=list(AGAINST), default=[p for p in AGAINST if "million" not in p])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    size, rounds = (5_000, 1) if options.quick else (70_000, options.rounds)
    name = "end_to_end_quick" if options.quick else "end_to_end"
    path = machine.RESULTS / f"{name}.csv"
    data = Data(size) if DATA_PARTS & set(options.parts) else None
    small = {rows: Data(rows) for part, rows in SIZES.items() if part in options.parts}
    make: dict[str, Callable[[], dict[str, Call]]] = {
        "features": lambda: features(data),  # type: ignore[arg-type]
        "call": lambda: call(data),  # type: ignore[arg-type]
        "busy": lambda: busy(data),  # type: ignore[arg-type]
        "threads": lambda: threads(data),  # type: ignore[arg-type]
        "graph": lambda: exact(data),  # type: ignore[arg-type]
        "lists": lambda: lists(data),  # type: ignore[arg-type]
        "classes": lambda: classes(size * 2 // 7, (2, 10, 77, 150)),
        "intents": lambda: intents(9_000),
        "memory": lambda: memory(20_000 if options.quick else 700_000),
        "demo": demo,
        **{part: lambda rows=rows: sized(small[rows]) for part, rows in SIZES.items()},  # type: ignore[misc]
        "a million nodes": lambda: million_nodes(20_000 if options.quick else 1_000_000),
        "million": lambda: million(30_000 if options.quick else 1_000_000),
    }
    kept: list[Row] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [{"note": "", **row} for row in csv.DictReader(file) if row["part"] not in options.parts]
    for part in options.parts:
        own = small.get(SIZES.get(part, 0), data if part in DATA_PARTS else None)
        kept += measure(part, make[part](), rounds, own)
        kept.sort(key=lambda row: list(AGAINST).index(str(row["part"])))
        machine.write_csv(kept, path)  # a part that is done stays if the next is interrupted
        machine.write_text(summary(kept), path.with_suffix(".md"))
    print(summary(kept))


if __name__ == "__main__":
    main()
