"""The hybrid framework on digits, five labels per class: supervised, pseudo-labelling, LGC and CREPE in one table.

All take the same steps on the same labelled images, with the preset ``cpu`` (tried on split seeds 100 to 104 before).
Run ``python benchmarks/hybrid_digits.py``; it writes ``results/hybrid_digits.csv`` and ``.md``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from shared.machine import RESULTS, describe, write_csv, write_text
from tqdm import tqdm

from tg_crepe.datasets import RandomLabelSplit, load_digits
from tg_crepe.training import HybridTrainer, get_preset

METHODS = {
    "none": "supervised",
    "network": "network pseudo-labels",
    "lgc": "hybrid LGC",
    "crepe": "hybrid CREPE",
}


def one_run(job: tuple[int, str]) -> dict[str, object]:
    """Trains once on one thread: batches of 8x8 images are too small for two."""
    seed, energy = job
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dataset, preset = load_digits(), get_preset("digits", "cpu")
    split = RandomLabelSplit(preset.labels, preset.unit, seed=seed).draw(dataset)
    start, cpu = time.perf_counter(), time.process_time()
    trainer = HybridTrainer(dataset, split, preset.backbone, energy, replace(preset.config, seed=seed))
    final = trainer.fit().final
    return {
        "method": METHODS[energy],
        "seed": seed,
        "test_error": 100 * final["error"],
        "pseudo_label_error": None if final["pseudo_error"] is None else 100 * final["pseudo_error"],
        "calibration_error": 100 * final["calibration_error"],
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }


def table(rows: list[dict[str, object]], seconds: float) -> str:
    config = get_preset("digits", "cpu").config
    lines = [
        f"Digits, five labels per class, {len({row['seed'] for row in rows})} seeds: {config.epochs} epochs "
        f"({config.warmup_epochs} of them supervised) of the small network. Mean ± standard deviation in %; the whole "
        f"run took {seconds:.0f} s and {sum(float(row['cpu_seconds']) for row in rows):.0f} s of processor time. "
        "`python benchmarks/hybrid_digits.py`",
        "",
        "| | test error | pseudo-label error | calibration error | processor seconds a run |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS.values():
        mine = [row for row in rows if row["method"] == method]
        cells = []
        for key in ("test_error", "pseudo_label_error", "calibration_error"):
            values = [row[key] for row in mine if row[key] is not None]
            cells.append(f"{np.mean(values):.2f} ± {np.std(values):.2f}" if values else "–")
        lines.append(f"| {method} | {' | '.join(cells)} | {np.mean([row['cpu_seconds'] for row in mine]):.1f} |")
    return "\n".join([*lines, "", f"Machine: {describe()}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 5), help="first and one past the last (0 5)")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    start = time.perf_counter()
    jobs = list(product(range(*args.seeds), METHODS))
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        rows = list(tqdm(pool.map(one_run, jobs), total=len(jobs)))
    args.out.mkdir(parents=True, exist_ok=True)
    text = table(rows, time.perf_counter() - start)
    write_csv(rows, args.out / "hybrid_digits.csv")
    write_text(text, args.out / "hybrid_digits.md")
    print(text)


if __name__ == "__main__":
    main()
