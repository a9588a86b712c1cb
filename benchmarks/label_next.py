"""What to label next: error against the number of labels, for every strategy, chance, and GraphLearning's choices.

    python benchmarks/label_next.py                  # seeds 0-9, writes benchmarks/results/label_next.{csv,md,png}
    python benchmarks/label_next.py --seeds 100 102 --data digits --out some/folder

Every curve starts from the same random label of each class; then ten labels are asked for at a time. CREPE propagates
the labels of all curves, so that only the choice differs. GraphLearning's margin is taken from its own model (laplace),
its V-opt from 50 eigenvectors. Fashion-MNIST are the first 7,000 training images (`benchmarks/features.py`,
`TG_CREPE_DATA`). What was measured is taken over from the CSV when a run is started again.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import graphlearning as gl
import numpy as np
import torch
from scipy.sparse import csr_matrix
from shared import machine
from shared.features import load
from shared.picture import write_picture
from shared.splits import Split, choose_labels
from torch import Tensor
from tqdm import tqdm

from tg_crepe import GraphWarning, knn_graph
from tg_crepe.active import STRATEGIES, LabelLoop, error_curve

#: Data set, how many of its nodes, and the number of neighbours.
DATA = {"digits": (1797, 20), "fashion": (7000, 20)}
BATCH = 10
EIGENVECTORS = 50

Row = dict[str, object]


def gl_margin(weights: csr_matrix) -> Callable[[LabelLoop, int], Tensor]:
    """GraphLearning's smallest margin of its own Laplace learning."""

    def choose(loop: LabelLoop, n: int) -> Tensor:
        known = loop.mask.nonzero().view(-1).numpy()
        learner = gl.active_learning.active_learner(
            gl.ssl.laplace(weights), gl.active_learning.unc_sampling, known, loop.y.numpy()[known]
        )
        return torch.from_numpy(np.asarray(learner.select_queries(batch_size=n)))

    return choose


def gl_v_opt(weights: csr_matrix) -> Callable[[LabelLoop, int], Tensor]:
    """GraphLearning's variance minimisation, one node after the other; it does not look at the labels."""
    values, vectors = gl.graph(weights).eigen_decomp(normalization="normalized", k=EIGENVECTORS)

    def choose(loop: LabelLoop, n: int) -> Tensor:
        criterion = gl.active_learning.var_opt(np.diag(1 / (values + 1e-11)), vectors)
        criterion.update(loop.mask.nonzero().view(-1).numpy(), None)
        free, chosen = ~loop.mask.numpy(), []
        for _ in range(n):
            candidates = np.flatnonzero(free)
            chosen.append(int(candidates[criterion.compute(None, candidates).argmax()]))
            free[chosen[-1]] = False
            criterion.update(chosen[-1:], None)
        return torch.tensor(chosen)

    return choose


def measure(name: str, seeds: range, rounds: int, warm: bool, done: set[tuple[str, ...]]) -> Iterator[list[Row]]:
    """The curves of a data set that are not there yet."""
    limit, k = DATA[name]
    data = load(name)
    if data.x is None:
        raise ValueError(f"'{name}' must have features")
    x, y = data.x[:limit], data.y[:limit]
    edge_index, edge_weight = knn_graph(x, k, metric="euclidean")
    matrix = csr_matrix((edge_weight.double().numpy(), edge_index.numpy()), (len(y), len(y)))
    options: dict[str, dict[str, Any]] = {strategy: {"strategy": strategy} for strategy in STRATEGIES}
    options["GraphLearning margin"] = {"choose": gl_margin(matrix)}
    options["GraphLearning V-opt"] = {"choose": gl_v_opt(matrix)}
    cells = [(seed, method) for seed in seeds for method in options if (name, method, str(seed)) not in done]
    for seed, method in tqdm(cells, desc=name):
        mask = choose_labels(y, Split("count", 1), seed)
        curve = error_curve(
            y, edge_index, mask, edge_weight, rounds, BATCH, seed=seed, warm_start=warm, **options[method]
        )
        yield [
            {"data": name, "method": method, "seed": seed, "labels": labels, "error": error} for labels, error in curve
        ]


def read(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {**row, "seed": int(row["seed"]), "labels": int(row["labels"]), "error": float(row["error"])}
            for row in csv.DictReader(file)
        ]


def curves(rows: list[Row], name: str) -> dict[str, list[tuple[int, float]]]:
    """The mean error at every number of labels, by method."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row["data"] == name:
            points = found.setdefault(str(row["method"]), {})
            points.setdefault(int(str(row["labels"])), []).append(float(str(row["error"])))
    return {method: [(n, statistics.mean(e)) for n, e in points.items()] for method, points in found.items()}


def table(rows: list[Row], name: str) -> str:
    lines = []
    for method, points in sorted(curves(rows, name).items(), key=lambda item: statistics.mean(e for _, e in item[1])):
        if not lines:
            head = " | ".join(f"{n} labels" for n, _ in points)
            lines = [f"| {name}, error in % | {head} | mean of the curve |", "|---" * (len(points) + 2) + "|"]
        cells = " | ".join(f"{error:.2f}" for _, error in points)
        lines.append(f"| {method} | {cells} | {statistics.mean(e for _, e in points):.2f} |")
    return "\n".join(lines) + "\n"


def draw(rows: list[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(str(row["data"]) for row in rows))
    figure = Figure(figsize=(6 * len(names), 4.2), layout="constrained")
    for name, axes in zip(names, np.ravel(figure.subplots(1, len(names))), strict=True):
        for method, points in curves(rows, name).items():
            style = {"coverage": "-o", "random": "--k"}.get(method, ":" if method.startswith("Graph") else "-")
            width = 2.2 if method in ("coverage", "random") else 1.2
            axes.plot(*zip(*points, strict=True), style, label=method, linewidth=width, markersize=4)
        axes.set_title(f"{name}, {DATA[name][0]:,} nodes")
        axes.set_xlabel("labels")
        axes.set_ylabel("error in %")
        axes.set_ylim(bottom=0)
        axes.legend()
    write_picture(figure, path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--rounds", type=int, default=9, help="how often ten labels are asked for")
    parser.add_argument(
        "--warm", action="store_true", help="start a propagation from the last one (with another --out)"
    )
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    path = options.out / "label_next.csv"
    rows = read(path)
    done = {(str(row["data"]), str(row["method"]), str(row["seed"])) for row in rows}
    for name in options.data:
        for found in measure(name, range(*options.seeds), options.rounds, options.warm, done):
            rows += found
            machine.write_csv(rows, path)
    names = list(dict.fromkeys(str(row["data"]) for row in rows))
    seeds = sorted({int(str(row["seed"])) for row in rows})
    text = f"{machine.describe()}\n\nSeeds {seeds[0]}–{seeds[-1]}.\n\n" + "\n".join(table(rows, name) for name in names)
    machine.write_text(text, path.with_suffix(".md"))
    draw(rows, path.with_suffix(".png"))
    print(text)


if __name__ == "__main__":
    main()
