"""A simulated person in front of ``tg-crepe label``: the error after 10 to 200 keys, and that of others beside it.

    python benchmarks/labelling.py                  # seeds 0-9, writes benchmarks/results/labelling.{csv,md,png}
    python benchmarks/labelling.py --seeds 100 102 --data digits --out some/folder

Who asks and who labels is in :mod:`shared.labelling_job`. digits, the 10,000 images of CIFAR-10 with features of a
pretrained network (`TG_CREPE_DATA`/families) and the first 7,000 images of Fashion-MNIST as principal components. What
was measured is taken over from the CSV when a run is started again, so that it may be stopped at any time.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import warnings
from pathlib import Path

import numpy as np
import torch
from shared import machine
from shared.features import data_folder, load
from shared.labelling_job import METHODS, STOPS, Row, play
from shared.picture import write_picture
from tqdm import tqdm

from tg_crepe.label.prepared import Prepared

DATA = {"digits": "digits, 1,797", "cifar10": "CIFAR-10 pretrained, 10,000", "fashion": "Fashion-MNIST, 7,000"}
_COLUMNS = ("data", "method", "seed", "keys", "answers", "error", "open_error", "expected", "low", "high", "seconds")


def read_data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes."""
    if name == "cifar10":
        with np.load(data_folder() / "families" / "cifar10_efficientnet.npz", allow_pickle=False) as file:
            return file["x"].astype(np.float32), file["y"].astype(np.int64)
    data = load("digits" if name == "digits" else "fashion_pca")
    assert data.x is not None
    return data.x[:7000].numpy().astype(np.float32), data.y[:7000].numpy()


def read(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: value if key in ("data", "method") or not value else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def mean_error(rows: list[Row], name: str, method: str, keys: int) -> tuple[float, int] | None:
    """The mean over the seeds, and how many there are."""
    wanted = (name, method, keys)
    found = [float(str(row["error"])) for row in rows if (row["data"], row["method"], row["keys"]) == wanted]
    return (statistics.mean(found), len(found)) if found else None


def table(rows: list[Row], name: str) -> str:
    lines = [
        f"| {DATA[name]} | {' | '.join(f'{stop} keys' for stop in STOPS)} | seeds |",
        "|---" * (len(STOPS) + 2) + "|",
    ]
    for method in METHODS:
        found = [mean_error(rows, name, method, stop) for stop in STOPS]
        if any(found):
            cells = ["–" if one is None else f"{one[0]:.2f}" for one in found]
            lines.append(f"| {method} | {' | '.join(cells)} | {max(one[1] for one in found if one is not None)} |")
    return "\n".join(lines) + "\n"


def coverage(rows: list[Row]) -> str:
    """How often the interval of the page held the true error of the items without an answer."""
    judged = [row for row in rows if str(row["method"]).startswith("label") and row.get("low") not in (None, "")]
    held = [float(str(r["low"])) <= float(str(r["open_error"])) <= float(str(r["high"])) for r in judged]
    return f"The interval of the page held the true error at {sum(held)} of {len(held)} stops.\n" if held else ""


def draw(rows: list[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    names = [name for name in DATA if any(row["data"] == name for row in rows)]
    figure = Figure(figsize=(4.6 * len(names), 3.8), layout="constrained")
    styles = ("-o", "-s", "--k", ":^", ":v")
    for name, axes in zip(names, np.ravel(figure.subplots(1, len(names))), strict=True):
        for method, style in zip(METHODS, styles, strict=True):
            points = [(stop, mean_error(rows, name, method, stop)) for stop in STOPS]
            known = [(stop, one[0]) for stop, one in points if one is not None]
            if known:
                axes.plot(*zip(*known, strict=True), style, label=method, markersize=4)
        axes.set_xscale("log")
        axes.set_xticks(STOPS, [str(stop) for stop in STOPS])
        axes.minorticks_off()
        axes.set_title(DATA[name])
        axes.set_xlabel("keys")
        axes.set_ylabel("error in %")
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    write_picture(figure, path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--report", action="store_true", help="only write what is finished")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = options.out / "labelling.csv"
    rows = read(path)
    done = {(row["data"], row["method"], row["seed"]) for row in rows}
    cells = [(seed, name) for seed in range(*options.seeds) for name in options.data] if not options.report else []
    prepared: dict[str, tuple[np.ndarray, np.ndarray, Prepared]] = {}
    torch.set_num_threads(1)
    for seed, name in tqdm(cells):
        for method in options.methods:
            if (name, method, float(seed)) in done:
                continue
            if name not in prepared:
                x, y = read_data(name)
                prepared[name] = (x, y, Prepared.make(x, 20, "auto"))
            found = play(*prepared[name], method, seed)
            rows += [{"data": name, "method": method, "seed": float(seed), **row} for row in found]
            machine.write_csv([{key: row.get(key, "") for key in _COLUMNS} for row in rows], path)
    names = [name for name in DATA if any(row["data"] == name for row in rows)]
    text = "\n".join([machine.describe(), "", *(table(rows, name) for name in names), coverage(rows)])
    machine.write_text(text, path.with_suffix(".md"))
    draw(rows, path.with_suffix(".png"))
    print(text)


if __name__ == "__main__":
    main()
