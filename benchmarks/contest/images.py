"""Images through a pretrained network: every energy of the package and what people use otherwise, on its features.

    python benchmarks/contest images                   # seeds 0-9, writes benchmarks/results/contest_images.*
    python benchmarks/contest images --plan            # what would be run, and about how long
    python benchmarks/contest images --seeds 100 102 --data breastmnist --draws 1 5 --out some/folder
    python benchmarks/contest images --rows 10000 --out some/folder          # all images
    python benchmarks/contest images --report          # only writes what is finished

Images are those of TG_CREPE_DATA (CIFAR-10, or its packed part; Fashion-MNIST; two sets of MedMNIST), enlarged by the
preprocessing of a frozen ImageNet network; their features are made once (``tg_crepe.embed``) and kept in
TG_CREPE_CACHE. Of Fashion-MNIST it is the test part, 10,000 images. Of every set ``--rows`` images are used, the same
for all draws. All methods see the same labels and label the same images, those without one. ``crepe`` is the energy
alone, ``crepe + head`` what :class:`tg_crepe.sklearn.CrepeClassifier` and ``tg-crepe propagate`` do; the other rivals
are in :mod:`shared.estimators`.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from shared import machine
from shared.command import run_command
from shared.estimators import ESTIMATORS
from shared.features import data_folder
from shared.grid import Cell, CellStore
from shared.images_job import HEAD, METHODS, choose_rows, make_cell, make_job, read_classes
from shared.options import new_parser, parse_table
from shared.picture import write_picture
from shared.standing import Standing, p_text
from shared.table import markdown, opening

from tg_crepe.datasets import get_dataset
from tg_crepe.embed import embed_to_file

SEEDS, DRAWS, MODEL, SIZE, ROWS = (0, 10), (1, 2, 5, 10, 25, 100), "timm:tf_efficientnet_lite0", 128, 2000

#: The data sets, by the names of the loaders, and the parts of them that are used.
DATA = {
    "cifar10_subset": ("train",),
    "fashion_mnist": ("test",),
    "pneumoniamnist": ("train", "val", "test"),
    "breastmnist": ("train", "val", "test"),
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    parser = new_parser(__doc__)
    parser.add_argument("--model", default=MODEL, help="another pretrained network (default: %(default)s)")
    parser.add_argument("--size", type=int, default=SIZE, help="pixels a side that the network sees")
    parser.add_argument("--rows", type=int, default=ROWS, help="images of a set at most")
    options = parse_table(parser, arguments, SEEDS, data=tuple(DATA), draws=DRAWS, methods=METHODS)
    usual = (options.model, options.size, options.rows) == (MODEL, SIZE, ROWS)
    if not usual and options.out == machine.RESULTS:
        options.out = None
    return options


def prepare(name: str, model: str, size: int) -> Path:
    """The file of features of a data set, made once, and of their classes beside it."""
    folder = machine.cache_folder() / "pretrained"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{model.replace(':', '-')}-{size}.npz"
    if not path.exists():
        dataset = get_dataset(name, data_folder())
        places = torch.cat([getattr(dataset, part) for part in DATA[name]])
        np.save(path.with_suffix(".npy"), dataset.targets[places].numpy())
        embed_to_file(list(dataset.fetch(places)), path, model, size=size)
    return path


def main() -> None:
    options = parse_arguments()
    paths = {name: prepare(name, options.model, options.size) for name in options.data}
    cells = [cell for seed in range(*options.seeds) for cell in _cells(options, paths, seed)]
    job = functools.partial(make_job, tuple(paths.items()), options.rows)
    run_command(cells, job, CellStore(machine.cache_folder() / "pretrained_cells"), options, report, "contest_images")


def _cells(options: argparse.Namespace, paths: dict[str, Path], seed: int) -> list[Cell]:
    """Those of a seed; none where a class has no more images than are labelled."""
    return [
        make_cell(name, path, options.rows, draw, seed, method)
        for name, path in paths.items()
        for draw in options.draws
        if draw < int(np.bincount(read_classes(path)[choose_rows(path, options.rows)]).min())
        for method in options.methods
    ]


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """Tables of mean errors ± their deviation over the draws, in per cent, and p of the difference from our default."""
    lines = [
        *opening(failed),
        "Errors in per cent, mean ± deviation over draws. p in a column: paired t-test of a method's errors against "
        f"those of {HEAD} on the same draws. Overall p: Wilcoxon's over columns, of the logarithm of the error over "
        f"that of {HEAD}, half an image added on both sides. Two-sided, not corrected.",
        "",
        "## All columns",
        "",
        *standing(rows).table(),
        "",
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        draws, methods = sorted({row["labels"] for row in own}), list(dict.fromkeys(row["method"] for row in own))
        table = []
        for method in methods:
            seconds = np.mean([row["seconds"] for row in own if row["method"] == method])
            table.append([method, *(_cell(own, method, draw) for draw in draws), f"{seconds:.1f}"])
        lines += [f"## {data}", "", *markdown(["method", *(f"{draw} per class" for draw in draws), "s"], table), ""]
    return "\n".join(lines).rstrip() + "\n", functools.partial(draw_errors, rows)


def standing(rows: list[dict[str, Any]]) -> Standing:
    """How the methods stand over all data sets and numbers of labels."""
    return Standing.of_rows([{**row, "draw": f"{row['labels']} per class"} for row in rows], HEAD, data="data")


def _errors(rows: list[dict[str, Any]], method: str, draw: int) -> dict[int, float]:
    return {row["seed"]: row["error"] for row in rows if row["method"] == method and row["labels"] == draw}


def _cell(rows: list[dict[str, Any]], method: str, draw: int) -> str:
    """Mean ± std, and p beside our default on the draws that both have."""
    errors, ours = _errors(rows, method, draw), _errors(rows, HEAD, draw)
    if not errors:
        return "–"
    values = np.array(list(errors.values()))
    text = f"{values.mean():.1f} ± {values.std(ddof=1) if len(values) > 1 else 0:.1f}"
    both = sorted(errors.keys() & ours.keys())
    difference = np.array([errors[seed] - ours[seed] for seed in both])
    if method == HEAD or len(both) < 3 or not difference.any():
        return text
    return f"{text} (p {p_text(float(stats.ttest_1samp(difference, 0).pvalue))})"


def draw_errors(rows: list[dict[str, Any]], path: Path) -> None:
    """A panel per data set: mean error over labels per class, the energies in grey but for CREPE."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(4.2 * len(names), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, data in zip(panels, names, strict=True):
        own = [row for row in rows if row["data"] == data]
        for method in dict.fromkeys(row["method"] for row in own):
            draws = sorted({row["labels"] for row in own if row["method"] == method})
            means = [np.mean(list(_errors(own, method, draw).values())) for draw in draws]
            if method in (*ESTIMATORS, "crepe", HEAD):  # what people use, and CREPE, stand out
                width = 2.5 if method in ("crepe", HEAD) else 1.3
                axes.plot(draws, means, "-o", ms=3, lw=width, label=method)
            else:
                axes.plot(draws, means, color="0.75", lw=1, label="other energies", zorder=0)
        axes.set(xscale="log", title=data, xlabel="labels per class", ylabel="error in %")
        axes.set_xticks(draws, [str(draw) for draw in draws])
        axes.minorticks_off()
    handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    panels[0].legend(handles.values(), handles.keys(), fontsize=7)
    write_picture(figure, path, dpi=130)
