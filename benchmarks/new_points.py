"""Held-out points: the error of `predict` beside the transductive error, on digits and on Fashion-MNIST features.

    python benchmarks/new_points.py                 # seeds 0-9, writes benchmarks/results/new_points.csv and .md
    python benchmarks/new_points.py --seeds 100 102 --out some/folder

A quarter of the digits, or the 10,000 test images, are left out of the graph; the labels are a stratified random choice
among the others. `TG_CREPE_DATA` names the folder of Fashion-MNIST.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from shared import machine
from shared.features import load
from shared.splits import Split, choose_labels
from tqdm import tqdm

from tg_crepe.sklearn import CrepeClassifier


def cases(seed: int) -> Iterator[tuple[str, Split, np.ndarray, torch.Tensor, np.ndarray]]:
    """Name, labels, features, classes and the rows that are left out."""
    digits = load("digits")
    held_out = np.random.default_rng(seed).random(len(digits.y)) < 0.25
    assert digits.x is not None
    for count in (2, 5, 10):
        yield "digits", Split("count", count), digits.x.numpy(), digits.y, held_out
    fashion = load("fashion")
    assert fashion.x is not None
    yield "Fashion-MNIST", Split("share", 0.01), fashion.x.numpy(), fashion.y, np.arange(len(fashion.y)) >= 60_000


def measure(seeds: range) -> Iterator[dict[str, object]]:
    for seed in tqdm(seeds, desc="seeds"):
        for name, split, x, y, held_out in cases(seed):
            truth = y[torch.from_numpy(~held_out)]
            mask = choose_labels(truth, split, seed).numpy()
            model = CrepeClassifier(metric="euclidean").fit(x[~held_out], np.where(mask, truth.numpy(), -1))
            start = time.perf_counter()
            predicted = model.predict(x[held_out])
            yield {
                "data": f"{name}, {split}",
                "seed": seed,
                "transductive": 100 * float((model.transduction_ != truth.numpy())[~mask].mean()),
                "held_out": 100 * float((predicted != y.numpy()[held_out]).mean()),
                "predict_seconds": time.perf_counter() - start,
            }


def table(rows: list[dict[str, object]]) -> str:
    lines = ["| error in % | unlabelled nodes of the graph | held-out points | difference |", "|---" * 4 + "|"]
    for name in dict.fromkeys(str(row["data"]) for row in rows):
        own = [row for row in rows if row["data"] == name]
        inside, outside = ([float(str(row[key])) for row in own] for key in ("transductive", "held_out"))
        means = [f"{statistics.mean(values):.2f} ± {statistics.pstdev(values):.2f}" for values in (inside, outside)]
        lines.append(f"| {name} | {' | '.join(means)} | {statistics.mean(outside) - statistics.mean(inside):+.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    rows = list(measure(range(*options.seeds)))
    machine.write_csv(rows, options.out / "new_points.csv")
    text = f"{machine.describe()}\n\nk = 20, {options.seeds[1] - options.seeds[0]} seeds.\n\n{table(rows)}"
    machine.write_text(text, options.out / "new_points.md")
    print(text)


if __name__ == "__main__":
    main()
