"""The table on pretrained features: every energy of the package and what people use otherwise, on the same features.

    python benchmarks/pretrained.py                    # seeds 0-9, writes benchmarks/results/pretrained.csv, .md, .png
    python benchmarks/pretrained.py --plan             # what would be run, and about how long
    python benchmarks/pretrained.py --seeds 100 102 --data breastmnist --draws 1 5 --out some/folder
    python benchmarks/pretrained.py --rows 10000 --out some/folder          # all images
    python benchmarks/pretrained.py --report           # only writes what is finished

Images are those of TG_CREPE_DATA (CIFAR-10, or its packed part; Fashion-MNIST; two sets of MedMNIST), enlarged by the
preprocessing of a frozen ImageNet network; their features are made once (``tg_crepe.embed``) and kept in
TG_CREPE_CACHE. Of Fashion-MNIST it is the test part, 10,000 images. Of every set ``--rows`` images are used, the same
for all draws. All methods see the same labels and label the same images, those without one; linear models learn from
the labels alone, the others from all features. Rows have unit length, but for self-training. ``crepe`` is the energy
alone, ``crepe + head`` what :class:`tg_crepe.sklearn.CrepeClassifier` and ``tg-crepe propagate`` do.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from shared import machine
from shared.command import run_command
from shared.features import data_folder
from shared.grid import Cell, CellStore, Job, Value
from shared.options import add_run_options, check_run_options
from shared.splits import Split, choose_labels
from shared.table import markdown

from tg_crepe import get_energy_model, knn_graph
from tg_crepe.datasets import get_dataset
from tg_crepe.embed import embed_to_file, read_embedding
from tg_crepe.models.registry import ENERGY_MODELS

SEEDS, DRAWS, K, ROWS = (0, 10), (1, 2, 5, 10, 25, 100), 20, 2000

#: The data sets, by the names of the loaders, and the parts of them that are used.
DATA = {
    "cifar10_subset": ("train",),
    "fashion_mnist": ("test",),
    "pneumoniamnist": ("train", "val", "test"),
    "breastmnist": ("train", "val", "test"),
}
ENERGIES = tuple(ENERGY_MODELS)
HEAD = "crepe + head"
OTHERS = ("logistic regression", "linear SVM", "kNN", "self-training", "label spreading")
METHODS = ("crepe", HEAD, *(name for name in ENERGIES if name != "crepe"), *OTHERS)

#: About how many seconds a method takes, where it is not a few tenths.
SECONDS = {"self-training": 5.0, "label spreading": 1.0, HEAD: 1.0}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "END"))
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA), metavar="NAME")
    parser.add_argument("--draws", type=int, nargs="+", default=list(DRAWS), metavar="LABELS", help="labels per class")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME")
    parser.add_argument("--model", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=128, help="pixels a side that the network sees")
    parser.add_argument("--rows", type=int, default=ROWS, help="images of a set at most")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    chosen = (tuple(options.seeds), tuple(options.data), tuple(options.draws), tuple(options.methods), options.rows)
    if options.out is None and chosen == (SEEDS, tuple(DATA), DRAWS, METHODS, ROWS):
        options.out = machine.RESULTS
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


def choose_rows(path: Path, rows: int) -> np.ndarray:
    """The same random rows for everybody."""
    count = len(np.load(path.with_suffix(".npy")))
    return np.sort(np.random.default_rng(0).choice(count, min(rows, count), replace=False))


@functools.cache
def read(path: Path, rows: int) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor], float]:
    """Features and classes of some rows, their graph, and the seconds that it takes."""
    chosen = choose_rows(path, rows)
    x = torch.from_numpy(read_embedding(path).x)[chosen]
    y = torch.from_numpy(np.load(path.with_suffix(".npy")))[chosen]
    start = time.perf_counter()
    graph = knn_graph(x, K)
    return x, y, graph, time.perf_counter() - start


def estimator(name: str) -> Any:
    """What people use otherwise, with scikit-learn's defaults but for what few labels forbid."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
    from sklearn.svm import LinearSVC

    return {
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "linear SVM": lambda: LinearSVC(),
        "kNN": lambda: KNeighborsClassifier(1, metric="cosine"),  # one neighbour: there may be one label per class
        "self-training": lambda: SelfTrainingClassifier(LogisticRegression(max_iter=1000)),
        "label spreading": lambda: LabelSpreading("knn", n_neighbors=K),
    }[name]()


def predict(name: str, path: Path, mask: torch.Tensor, rows: int) -> tuple[np.ndarray, float]:
    """The labels of all rows by a method, and its seconds with the graph, where it has one."""
    x, y, graph, graph_seconds = read(path, rows)
    start = time.perf_counter()
    if name in ENERGY_MODELS:
        result = get_energy_model(name).propagate(y, graph[0], mask, graph[1], int(y.max()) + 1)
        return result.label.numpy(), time.perf_counter() - start + graph_seconds
    if name == HEAD:
        from tg_crepe.sklearn import CrepeClassifier

        fitted = CrepeClassifier(n_neighbors=K).fit(x.numpy(), np.where(mask.numpy(), y.numpy(), -1))
        return fitted.transduction_, time.perf_counter() - start
    # As it is best for them on other draws (seeds 100-102; standardised columns cost logistic regression 14 points with
    # one label of CIFAR-10, unit length costs self-training its confidence).
    scaled = x if name == "self-training" else torch.nn.functional.normalize(x)
    features, known = scaled.numpy(), mask.numpy()
    model = estimator(name)
    if name in ("self-training", "label spreading"):
        model.fit(features, np.where(known, y.numpy(), -1))
    else:
        model.fit(features[known], y.numpy()[known])
    label = model.transduction_ if name == "label spreading" else model.predict(features)
    return label, time.perf_counter() - start


def make_job(paths: tuple[tuple[str, Path], ...], rows: int, threads: int = 1) -> Job:
    """Answers a cell: one method on one draw."""
    by_name = dict(paths)

    def job(cell: Cell) -> list[dict[str, Value]]:
        path, name = by_name[str(cell.point["data"])], str(cell.point["method"])
        y = read(path, rows)[1]
        mask = choose_labels(y, Split("count", int(cell.point["labels"])), int(cell.point["seed"]))
        label, seconds = predict(name, path, mask, rows)
        wrong = label[~mask.numpy()] != y.numpy()[~mask.numpy()]
        return [{"error": float(wrong.mean()), "seconds": seconds}]

    return job


def summary(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """Tables of mean errors ± their deviation over the draws, in per cent, and p of the difference from CREPE."""
    lines = ["# On pretrained features", "", f"Errors in per cent, mean ± std over draws; {machine.describe()}.", ""]
    if failed:
        lines += [f"{failed} cells failed and are missing.", ""]
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        draws, methods = sorted({row["labels"] for row in own}), list(dict.fromkeys(row["method"] for row in own))
        table = []
        for method in methods:
            seconds = np.mean([row["seconds"] for row in own if row["method"] == method])
            table.append([method, *(_cell(own, method, draw) for draw in draws), f"{seconds:.1f}"])
        lines += [f"## {data}", "", *markdown(["method", *(f"{draw} per class" for draw in draws), "s"], table), ""]
    lines += [*overall(rows), ""]
    lines.append("p: paired t-test of a method's errors against those of CREPE on the same draws, two-sided.")
    return "\n".join(lines) + "\n", functools.partial(draw_errors, rows)


def overall(rows: list[dict[str, Any]]) -> list[str]:
    """Over all columns of all tables: a method's mean error beside the lowest of the column, both + 0.3 points so that
    nothing is divided by zero; the geometric mean, the worst, and how often it is the lowest. Draws that a method of
    the column lacks do not count."""
    columns = list(dict.fromkeys((row["data"], row["labels"]) for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    ratios: dict[str, list[float]] = {method: [] for method in methods}
    for data, draw in columns:
        own = [row for row in rows if row["data"] == data]
        errors = {name: found for name in methods if (found := _errors(own, name, draw))}
        draws = set.intersection(*(set(found) for found in errors.values()))
        if not draws:  # a run that is not finished yet
            continue
        means = {name: 0.3 + np.mean([found[seed] for seed in draws]) for name, found in errors.items()}
        for name, mean in means.items():
            ratios[name].append(mean / min(means.values()))
    table = [
        [name, f"{np.exp(np.mean(np.log(own))):.2f}", f"{max(own):.2f}", f"{own.count(1.0)} of {len(own)}"]
        for name, own in ratios.items()
        if own
    ]
    title = ["method", "error beside the lowest of the column, geometric mean", "worst column", "lowest in"]
    return ["## All columns", "", *markdown(title, table)]


def _errors(rows: list[dict[str, Any]], method: str, draw: int) -> dict[int, float]:
    return {row["seed"]: 100 * row["error"] for row in rows if row["method"] == method and row["labels"] == draw}


def _cell(rows: list[dict[str, Any]], method: str, draw: int) -> str:
    """Mean ± std, and p beside CREPE on the draws that both have."""
    errors, crepe = _errors(rows, method, draw), _errors(rows, "crepe", draw)
    if not errors:
        return "–"
    values = np.array(list(errors.values()))
    text = f"{values.mean():.1f} ± {values.std(ddof=1) if len(values) > 1 else 0:.1f}"
    both = sorted(errors.keys() & crepe.keys())
    difference = np.array([errors[seed] - crepe[seed] for seed in both])
    if method == "crepe" or len(both) < 3 or not difference.any():
        return text
    return f"{text} (p {stats.ttest_1samp(difference, 0).pvalue:.1g})"


def draw_errors(rows: list[dict[str, Any]], path: Path) -> None:
    """A panel per data set: mean error over labels per class, the energies in grey but for CREPE."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.6), squeeze=False, layout="constrained")
    for axis, data in zip(axes[0], names, strict=True):
        own = [row for row in rows if row["data"] == data]
        for method in dict.fromkeys(row["method"] for row in own):
            draws = sorted({row["labels"] for row in own if row["method"] == method})
            means = [np.mean(list(_errors(own, method, draw).values())) for draw in draws]
            grey = method in ENERGY_MODELS and method != "crepe"  # CREPE and what people use otherwise stand out
            style = (
                {"color": "0.75", "lw": 1}
                if grey
                else {"marker": "o", "ms": 3, "lw": 2.5 if method in ("crepe", HEAD) else 1.3}
            )
            axis.plot(draws, means, label="other energies" if grey else method, **style)
        axis.set(xscale="log", title=data, xlabel="labels per class", ylabel="error in per cent")
        axis.set_xticks(draws, [str(draw) for draw in draws])
    handles = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    axes[0, 0].legend(handles.values(), handles.keys(), fontsize=7)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    options = parse_arguments()
    paths = {name: prepare(name, options.model, options.size) for name in options.data}
    cells = [
        Cell(
            {"data": name, "labels": draw, "method": method, "seed": seed},
            f"{path.name} k={K} rows={options.rows}",
            SECONDS.get(method, 0.3),
        )
        for seed in range(*options.seeds)
        for name, path in paths.items()
        for draw in options.draws
        for method in options.methods
        if draw < int(np.bincount(np.load(path.with_suffix(".npy"))[choose_rows(path, options.rows)]).min())
    ]
    store = CellStore(machine.cache_folder() / "pretrained_cells")
    run_command(
        cells, functools.partial(make_job, tuple(paths.items()), options.rows), store, options, summary, "pretrained"
    )


if __name__ == "__main__":
    import pretrained  # by this name workers find its functions

    pretrained.main()
