"""The problems of ``recipe``: a data set, its graph, some labels, and what may be wrong with any of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch
from shared import features
from shared.splits import Split, choose_labels
from torch import Tensor
from torch_geometric.utils import subgraph

from tg_crepe import knn_graph

#: Nodes of Fashion-MNIST that take part: enough for the shape of a curve, and a run takes a second.
FASHION_NODES = 7_000

#: The share of the nodes that the rare class has.
RARE = 0.01

#: Labels of the class that has few, of the one that has many, and of every other.
FEW, MANY, OTHERS = 1, 200, 20

#: Islands that are added to a graph, three nodes each.
ISLANDS = 100

#: What may be done to a problem. Those of the second group must leave the labels of the other nodes as they are.
TWISTS = ("", "rare class", "1 label beside 200", "5 % wrong", "20 % wrong", "two halves", "labelled islands")
HARMLESS = ("weights × 1000", "unlabelled islands")


@dataclass(frozen=True)
class Case:
    """A column of a table.

    Args:
        data (str): A name of :mod:`shared.features`.
        split (Split): How many labels there are.
        k (int): Neighbours in the graph. (default: 0, those of the data set)
        noise (float): The noise of the two moons. (default: 0)
        metric (str): Of the neighbours. (default: Euclidean)
        twist (str): One of :data:`TWISTS` or :data:`HARMLESS`. (default: none)
    """

    data: str
    split: Split
    k: int = 0
    noise: float = 0.0
    metric: str = "euclidean"
    twist: str = ""

    @property
    def title(self) -> str:
        """What a table calls it."""
        name = {
            "fashion": "Fashion-MNIST",
            "two_moons": "Moons",
            "pneumonia": "PneumoniaMNIST",
            "breast": "BreastMNIST",
            "pubmed": "PubMed",
            "citeseer": "CiteSeer",
        }
        parts = [name.get(self.data, self.data.capitalize()) + (f" {self.noise:g}" if self.noise else "")]
        parts += [str(self.split)] if self.twist != "1 label beside 200" else []
        parts += [f"k = {self.k}"] if self.k else []
        parts += [self.metric] if self.metric != "euclidean" else []
        return ", ".join(parts + ([self.twist] if self.twist else []))


@dataclass(frozen=True)
class Problem:
    """Labels on a graph, and the truth."""

    truth: Tensor  # [num_nodes], -1 where nobody asks
    y: Tensor  # [num_nodes], what is said of the labelled nodes, -1 elsewhere
    edge_index: Tensor  # [2, num_edges], both directions
    edge_weight: Tensor  # [num_edges]
    small: int = -1  # the class that the twist made small or gave one label

    @property
    def mask(self) -> Tensor:
        """Which nodes are labelled."""
        return self.y >= 0

    @property
    def tested(self) -> Tensor:
        """Which nodes count: those that are not labelled and whose class is known."""
        return ~self.mask & (self.truth >= 0)


@functools.lru_cache(maxsize=3)
def _load(name: str, noise: float, seed: int) -> features.BenchmarkData:
    data = features.load(name, noise=noise, seed=seed)
    if name == "fashion":
        data = replace(data, x=data.x[:FASHION_NODES], y=data.y[:FASHION_NODES])
    return data


@functools.lru_cache(maxsize=8)
def _graph(name: str, k: int, noise: float, metric: str, rare: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Classes, edges and weights; with ``rare`` >= 0 that class keeps one node in a hundred of all."""
    data = _load(name, noise, seed if name == "two_moons" else 0)
    y, x = data.y, data.x
    if x is None:
        return y, data.edge_index, torch.ones(data.edge_index.size(1))
    if rare >= 0:
        keep = y != rare
        size = max(2, round(RARE / (1 - RARE) * int(keep.sum())))
        keep[np.random.default_rng(seed).choice((~keep).nonzero().view(-1).numpy(), size, replace=False)] = True
        y, x = y[keep], x[keep]
    return y, *knn_graph(x, k or data.k, metric=metric)


def make_problem(case: Case, seed: int) -> Problem:
    """The problem of a case, a function of the case and the seed alone.

    Args:
        case (Case): What is wanted.
        seed (int): Of the labels, of the two moons and of the twist.
    """
    if case.twist not in (*TWISTS, *HARMLESS):
        raise ValueError(f"'twist' must be one of {', '.join(map(repr, (*TWISTS, *HARMLESS)))}, got {case.twist!r}")
    num_classes = int(_load(case.data, case.noise, seed if case.data == "two_moons" else 0).y.max()) + 1
    small = seed % num_classes if case.twist in ("rare class", "1 label beside 200") else -1
    follows_seed = case.data == "two_moons" or case.twist == "rare class"
    rare = small if case.twist == "rare class" else -1
    y, edge_index, edge_weight = _graph(case.data, case.k, case.noise, case.metric, rare, seed if follows_seed else 0)
    rng = np.random.default_rng([seed, 1])  # another stream than that of the split
    mask = _unequal_labels(y, small, rng) if case.twist == "1 label beside 200" else choose_labels(y, case.split, seed)
    problem = Problem(y, torch.where(mask, y, -1), edge_index, edge_weight, small)
    if case.twist.endswith("wrong"):
        return replace(problem, y=_wrong(problem.y, float(case.twist.partition(" ")[0]) / 100, num_classes, rng))
    if case.twist == "weights × 1000":
        return replace(problem, edge_weight=1000 * edge_weight)
    if case.twist == "two halves":
        side = torch.from_numpy(rng.random(y.numel()) < 0.5)
        parts = [subgraph(half, edge_index, edge_weight, num_nodes=y.numel()) for half in (side, ~side)]
        return replace(
            problem,
            edge_index=torch.cat([index for index, _ in parts], dim=1),
            edge_weight=torch.cat([weight for _, weight in parts]),
        )
    if case.twist.endswith("islands"):
        return _with_islands(problem, num_classes if case.twist == "labelled islands" else 0, rng)
    return problem


def _unequal_labels(y: Tensor, small: int, rng: np.random.Generator) -> Tensor:
    """One label of class ``small``, 200 of the next, 20 of every other."""
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    num_classes = int(y.max()) + 1
    for c in range(num_classes):
        count = FEW if c == small else MANY if c == (small + 1) % num_classes else OTHERS
        mask[rng.choice((y == c).nonzero().view(-1).numpy(), count, replace=False)] = True
    return mask


def _wrong(y: Tensor, share: float, num_classes: int, rng: np.random.Generator) -> Tensor:
    """Some of the labels replaced by another class, each with the same chance."""
    labelled = (y >= 0).nonzero().view(-1).numpy()
    chosen = torch.from_numpy(rng.choice(labelled, round(share * len(labelled)), replace=False))
    y = y.clone()
    y[chosen] = (y[chosen] + torch.from_numpy(rng.integers(1, num_classes, len(chosen)))) % num_classes
    return y


def _with_islands(problem: Problem, num_classes: int, rng: np.random.Generator) -> Problem:
    """Triangles beside the graph; with ``num_classes`` > 0 one node of each has a label of a random class."""
    size = problem.y.numel()
    first = size + 3 * torch.arange(ISLANDS)
    pairs = [torch.stack([first + a, first + b]) for a in range(3) for b in range(3) if a != b]
    edges = torch.cat(pairs, dim=1)
    y = torch.full((3 * ISLANDS,), -1)
    if num_classes:
        y[::3] = torch.from_numpy(rng.integers(0, num_classes, ISLANDS))
    return replace(
        problem,
        truth=torch.cat([problem.truth, torch.full_like(y, -1)]),
        y=torch.cat([problem.y, y]),
        edge_index=torch.cat([problem.edge_index, edges], dim=1),
        edge_weight=torch.cat([problem.edge_weight, problem.edge_weight.mean().expand(edges.size(1))]),
    )
