"""What a worker of ``benchmarks/contest images`` does: one method on one draw of labels of pretrained features."""

from __future__ import annotations

import functools
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from shared.estimators import ESTIMATORS, code_of, estimate
from shared.fingerprint import fingerprint, fingerprint_of
from shared.grid import Cell, Job, Value
from shared.splits import Split, choose_labels
from torch import Tensor

from tg_crepe import get_energy_model, knn_graph
from tg_crepe.embed import read_embedding
from tg_crepe.models.registry import ENERGY_MODELS
from tg_crepe.sklearn import CrepeClassifier

#: The neighbours of the graph.
K = 20

#: Our default from features to labels.
HEAD = "crepe + head"

METHODS = ("crepe", HEAD, *(name for name in ENERGY_MODELS if name != "crepe"), *ESTIMATORS)

#: About how many seconds a method takes, where it is not a few tenths.
_SECONDS = {"self-training": 5.0, "label spreading": 1.0, "contrastive head": 2.0, HEAD: 1.0}


def make_cell(data: str, path: Path, rows: int, labels: int, seed: int, method: str) -> Cell:
    """The cell of a method on a draw of labels.

    Args:
        data (str): What the table calls the data.
        path (Path): The features, and the classes beside them.
        rows (int): How many images are used at most.
        labels (int): Labels per class.
        seed (int): The seed of the draw.
        method (str): One of :data:`METHODS`.
    """
    point: dict[str, Value] = {"data": data, "labels": labels, "method": method, "seed": seed}
    settings = f"{path.name} k={K} rows={rows} {fingerprint_of(predict, run_cell)} {_code(method)}"
    return Cell(point, settings, _SECONDS.get(method, 0.3))


def _code(method: str) -> str:
    """A text that changes with the code of a method."""
    if method in ESTIMATORS:
        return code_of(method)
    name = method if method in ENERGY_MODELS else "crepe.model"
    own = "tg_crepe.models.crepe.model" if name == "crepe" else f"tg_crepe.models.{name}"
    return fingerprint(own, "tg_crepe.graph.knn", *(["tg_crepe.sklearn._crepe"] if method == HEAD else []))


def make_job(paths: tuple[tuple[str, Path], ...], rows: int, threads: int = 1) -> Job:
    """Answers a cell: one method on one draw."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # linear models that have not converged, nodes that no label reaches
    return functools.partial(run_cell, dict(paths), rows)


def run_cell(paths: dict[str, Path], rows: int, cell: Cell) -> list[dict[str, Value]]:
    """The row of a cell, the error in per cent of the images without a label."""
    path = paths[str(cell.point["data"])]
    y = read(path, rows)[1]
    mask = choose_labels(y, Split("count", int(cell.point["labels"])), int(cell.point["seed"]))
    label, seconds = predict(str(cell.point["method"]), path, mask, rows)
    wrong = label[~mask.numpy()] != y.numpy()[~mask.numpy()]
    error = 100 * float(wrong.mean())
    return [{"labelled": int(mask.sum()), "unlabelled": wrong.size, "error": error, "seconds": seconds}]


def predict(name: str, path: Path, mask: Tensor, rows: int) -> tuple[np.ndarray, float]:
    """The labels of all rows by a method, and its seconds with the graph, where it has one."""
    x, truth, graph, graph_seconds = read(path, rows)
    y, classes = torch.where(mask, truth, -1), int(truth.max()) + 1
    start = time.perf_counter()
    if name in ESTIMATORS:
        return estimate(name, x, y, mask).label, time.perf_counter() - start
    if name == HEAD:
        fitted = CrepeClassifier(n_neighbors=K).fit(x.numpy(), y.numpy())
        return fitted.transduction_, time.perf_counter() - start
    result = get_energy_model(name).propagate(y, graph[0], mask, graph[1], classes)
    return result.label.numpy(), time.perf_counter() - start + graph_seconds


def read_classes(path: Path) -> np.ndarray:
    """The classes beside a file of features."""
    return np.load(path.with_suffix(".npy"))


def choose_rows(path: Path, rows: int) -> np.ndarray:
    """The same random rows for everybody."""
    count = len(read_classes(path))
    return np.sort(np.random.default_rng(0).choice(count, min(rows, count), replace=False))


@functools.cache
def read(path: Path, rows: int) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor], float]:
    """Features and classes of some rows, their graph, and the seconds that it takes."""
    chosen = choose_rows(path, rows)
    x = torch.from_numpy(read_embedding(path).x)[chosen]
    start = time.perf_counter()
    graph = knn_graph(x, K)
    return x, torch.from_numpy(read_classes(path))[chosen], graph, time.perf_counter() - start
