"""Does the interval that the page of ``tg-crepe label`` shows hold the true error? A hundred simulated sessions.

    python benchmarks/label_coverage.py                        # seeds 0-9, benchmarks/results/label_coverage.{csv,md}
    python benchmarks/label_coverage.py --seeds 100 103 --out some/folder       # development seeds

Ten families of data; a session has another random part of at most 600 of its items, begins with no label and ends after
40 answers; every answer is true. The error is that of the items without an answer. What was measured is taken over from
the CSV when a run is started again.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import torch
from shared import machine
from shared.families import FEATURES
from shared.labelling_job import Person
from tqdm import tqdm

from tg_crepe.label.choose import Chooser
from tg_crepe.label.prepared import Prepared

NAMES = (
    "digits",
    "CIFAR-10 pretrained",
    "Fashion-MNIST",
    "TREC",
    "segment",
    "wine",
    "breast cancer",
    "solar cells",
    "PneumoniaMNIST",
    "clouds",
)
ITEMS, ANSWERS, BATCH, STOPS = 600, 40, 5, (10, 20, 40)

Row = dict[str, object]


def session(x: np.ndarray, y: np.ndarray, seed: int) -> list[Row]:
    """The true and the expected error after some answers."""
    generator = np.random.default_rng(seed)
    part = np.sort(generator.choice(len(y), min(ITEMS, int(0.8 * len(y))), replace=False))
    x, y = np.ascontiguousarray(x[part]), y[part]
    prepared = Prepared.make(x, 20, "auto")
    person, chooser, rows = Person(x, y, prepared), Chooser(prepared, len(y)), list[Row]()
    person.answer([int(generator.integers(len(y)))], 1)
    while person.keys < ANSWERS:
        person.solve()
        # A person answers while a solve runs; at the stops all answers are in.
        count = BATCH - person.keys % BATCH if person.keys > 4 else 1
        for item in chooser(person.book, person.solved, count):
            person.answer([item], 1)
        if person.keys in STOPS:
            person.solve()
            rows.append({"answers": person.keys, **person.point()})
    return rows


def read(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: v if k == "data" or not v else float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def table(rows: list[Row]) -> str:
    """How often the interval held, and how wide it was."""
    lines = ["| answers | sessions | held | mean error | mean expected | mean width |", "|---" * 6 + "|"]
    for stop in STOPS:
        found = [row for row in rows if row["answers"] == stop and row.get("low") not in (None, "")]
        if not found:
            continue
        true, value, low, high = (
            np.array([float(str(r[k])) for r in found]) for k in ("open_error", "expected", "low", "high")
        )
        held = int(((low <= true + 1e-6) & (true <= high + 1e-6)).sum())
        cells = [f"{one.mean():.1f} %" for one in (true, value, high - low)]
        lines.append(f"| {stop} | {len(found)} | {held} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--data", nargs="+", choices=NAMES, default=list(NAMES), metavar="FAMILY")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path = options.out / "label_coverage.csv"
    rows = read(path)
    done, data = {(row["data"], row["seed"]) for row in rows}, {}
    columns = ("data", "seed", "answers", "error", "open_error", "expected", "low", "high")
    for seed, name in tqdm([(seed, name) for seed in range(*options.seeds) for name in options.data]):
        if (name, float(seed)) in done:
            continue
        if name not in data:
            x, y, _ = FEATURES[name]()
            data[name] = (np.asarray(x, dtype=np.float32), np.asarray(y))
        rows += [{"data": name, "seed": float(seed), **row} for row in session(*data[name], seed)]
        machine.write_csv([{key: row.get(key, "") for key in columns} for row in rows], path)
    text = f"{machine.describe()}\n\n{table(rows)}"
    machine.write_text(text, path.with_suffix(".md"))
    print(text)


if __name__ == "__main__":
    main()
