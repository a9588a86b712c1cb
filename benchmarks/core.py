"""The core's figures: two moons and digits with few labels, and two moons without any.

    python benchmarks/core.py                      # seeds 0-19, writes benchmarks/results/core_*.csv and .md
    python benchmarks/core.py --seeds 100 102 --out some/folder

Every model gets the same graph and the same labels (a stratified random choice from the seed); the error is that of the
unlabelled nodes, in per cent. A node that no label reaches counts as wrong.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons
from torch_geometric.nn import LabelPropagation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from tqdm import tqdm

from tg_crepe import (
    LGC,
    CrepePropagation,
    GraphWarning,
    Harmonic,
    NearestNeighbor,
    Recipe,
    cheeger_partition,
    knn_graph,
)

Predict = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def pyg_label_propagation(
    y: torch.Tensor, edge_index: torch.Tensor, mask: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    # PyG normalises only where no weight is given, so it is done here.
    edge_index, weight = gcn_norm(edge_index, weight, num_nodes=y.numel(), add_self_loops=False)
    model = LabelPropagation(num_layers=50, alpha=0.9)
    return model(torch.where(mask, y, 0), edge_index, mask, weight).argmax(dim=1)


MODELS: dict[str, Predict] = {
    "CREPE": lambda *a: CrepePropagation().propagate(*a).label,
    "CREPE, paper's scheme": lambda *a: CrepePropagation.paper().propagate(*a).label,
    "LGC (α = 0.99)": lambda *a: LGC().propagate(*a).label,
    "harmonic": lambda *a: Harmonic().propagate(*a).label,
    "nearest neighbour": lambda *a: NearestNeighbor().propagate(*a).label,
    "PyG LabelPropagation": pyg_label_propagation,
}


def choose_labels(y: np.ndarray, count: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for c in range(y.max() + 1):
        mask[rng.choice(np.flatnonzero(y == c), count, replace=False)] = True
    return mask


def two_moons(seed: int, noise: float) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    x, y = make_moons(1000, noise=noise, random_state=seed)
    return *knn_graph(torch.from_numpy(x), k=10, metric="euclidean"), y


def few_labels(seeds: range) -> Iterator[dict[str, object]]:
    digits, digit = load_digits(return_X_y=True)
    digit_graph = knn_graph(torch.from_numpy(digits), k=10, metric="euclidean")
    for seed in tqdm(seeds, desc="few labels"):
        cases = [(f"two moons, noise {noise}", 1, *two_moons(seed, noise)) for noise in (0.1, 0.15)]
        cases += [("digits", count, *digit_graph, digit) for count in (1, 2, 5, 10)]
        for data, count, edge_index, edge_weight, y in cases:
            mask = choose_labels(y, count, seed)
            truth = torch.from_numpy(y)
            for name, predict in MODELS.items():
                start = time.perf_counter()
                label = predict(truth, edge_index, mask, edge_weight)
                seconds = time.perf_counter() - start
                error = 100 * float((label != truth)[~mask].double().mean())
                yield {
                    "data": f"{data}, {count} per class",
                    "model": name,
                    "seed": seed,
                    "error": error,
                    "seconds": seconds,
                }


def no_labels(seeds: range) -> Iterator[dict[str, object]]:
    for seed in tqdm(seeds, desc="no labels"):
        edge_index, edge_weight, y = two_moons(seed, 0.1)
        for normaliser in ("l1", "median", "degree_median"):
            start = time.perf_counter()
            result = cheeger_partition(edge_index, edge_weight, normaliser=normaliser)
            seconds = time.perf_counter() - start
            wrong = 100 * float((result.partition != torch.from_numpy(y).bool()).double().mean())
            yield {
                "data": "two moons, noise 0.1, no label",
                "model": f"cheeger_partition, H = {normaliser}",
                "seed": seed,
                "error": min(wrong, 100 - wrong),
                "seconds": seconds,
            }


def inner_iterations() -> Iterator[dict[str, object]]:
    """Does it matter how far a step of the flow is solved? On development seeds, since a default was chosen by it."""
    digits, digit = load_digits(return_X_y=True)
    graphs = {k: knn_graph(torch.from_numpy(digits), k=k, metric="euclidean") for k in (10, 20)}
    truth = torch.from_numpy(digit)
    for seed in tqdm(range(100, 112), desc="inner iterations"):
        for k, count in ((k, count) for k in graphs for count in (1, 2, 5, 10)):
            mask = choose_labels(digit, count, seed)
            for inner in (10, 20, 40):
                start = time.perf_counter()
                model = CrepePropagation(Recipe(inner_iterations=inner))
                result = model.propagate(truth, graphs[k][0], mask, graphs[k][1])
                seconds = time.perf_counter() - start
                error = 100 * float((result.label != truth)[~mask].double().mean())
                yield {
                    "data": f"digits, k = {k}, {count} per class",
                    "model": f"{inner} inner iterations",
                    "seed": seed,
                    "error": error,
                    "seconds": seconds,
                }


def write(rows: list[dict[str, object]], path: Path) -> str:
    """Writes the CSV, and the table of mean ± deviation beside it."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    temporary.replace(path)
    columns = list(dict.fromkeys(row["data"] for row in rows))
    lines = ["| error in % | " + " | ".join(map(str, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for model in dict.fromkeys(row["model"] for row in rows):
        cells = []
        for column in columns:
            errors = [float(str(r["error"])) for r in rows if r["model"] == model and r["data"] == column]
            cells.append(f"{statistics.mean(errors):.2f} ± {statistics.pstdev(errors):.2f}" if errors else "")
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    table = "\n".join(lines) + "\n"
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20), metavar=("FIRST", "END"))
    parser.add_argument("--only", choices=["few_labels", "no_labels", "inner"], help="one experiment alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", GraphWarning)  # unreached nodes count as errors
    warnings.filterwarnings("ignore", message=".*step_limit.*")  # the paper's scheme has no clock
    seeds = range(*options.seeds)
    experiments = {
        "few_labels": lambda: few_labels(seeds),
        "no_labels": lambda: no_labels(seeds),
        "inner": inner_iterations,
    }
    for name in [options.only] if options.only else experiments:
        print(write(list(experiments[name]()), options.out / f"core_{name}.csv"))


if __name__ == "__main__":
    main()
