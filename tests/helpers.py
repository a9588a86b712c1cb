"""Graphs and dense algebra that the tests share; dense numpy is the oracle for everything sparse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.datasets import make_blobs, make_moons

from tg_crepe import knn_graph
from tg_crepe.graph import CanonicalGraph, canonical_graph
from tg_crepe.inference.task import LabelTask


def random_graph(
    seed: int, num_nodes: int = 12, density: float = 0.4, dtype: torch.dtype = torch.float64
) -> CanonicalGraph:
    """A connected random graph with weights over three orders of magnitude."""
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random((num_nodes, num_nodes)) < density, 10 ** rng.uniform(-2, 1, (num_nodes, num_nodes)), 0)
    order = rng.permutation(num_nodes)
    weight[order[:-1], order[1:]] = rng.uniform(0.1, 1, num_nodes - 1)  # a path through all nodes
    weight = np.triu(np.maximum(weight, weight.T), 1)
    row, col = weight.nonzero()
    edge_index = torch.from_numpy(np.stack([row, col]))
    return CanonicalGraph(edge_index, torch.from_numpy(weight[row, col]).to(dtype), num_nodes)


def dense_gradient(graph: CanonicalGraph) -> np.ndarray:
    """The matrix W D⁻¹ of the paper, an edge a row; a node without edges has a zero column."""
    w = np.zeros((graph.num_edges, graph.num_nodes))
    for e, ((i, j), value) in enumerate(zip(graph.edge_index.t().tolist(), graph.edge_weight.tolist(), strict=True)):
        w[e, i], w[e, j] = value, -value
    degree = np.abs(w).sum(axis=0)
    return w / np.where(degree > 0, degree, 1)


def dense_adjacency(graph: CanonicalGraph) -> np.ndarray:
    """The symmetric weight matrix."""
    w = np.zeros((graph.num_nodes, graph.num_nodes))
    i, j = graph.edge_index.numpy()
    w[i, j] = w[j, i] = graph.edge_weight.double().numpy()
    return w


def moons(seed: int, num_nodes: int = 300, noise: float = 0.1, k: int = 10) -> tuple[CanonicalGraph, torch.Tensor]:
    """Two moons as a canonical graph in double precision, and their classes."""
    x, y = make_moons(num_nodes, noise=noise, random_state=seed)
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), k, metric="euclidean")
    return canonical_graph(edge_index, edge_weight, num_nodes)[0], torch.from_numpy(y)


def clusters(seed: int, num_nodes: int = 150, spread: float = 2.0) -> tuple[CanonicalGraph, torch.Tensor]:
    """Three overlapping clusters in the plane as a canonical graph in double precision, and their classes."""
    x, y = make_blobs(num_nodes, centers=[(0, 0), (5, 0), (2.5, 4.3)], cluster_std=spread / 1.5, random_state=seed)
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), 8, metric="euclidean")
    return canonical_graph(edge_index, edge_weight, num_nodes)[0], torch.from_numpy(y)


def cluster_task(counts: Sequence[int], seed: int = 0) -> tuple[LabelTask, torch.Tensor]:
    """Three clusters with so many labels of each, the first nodes of them, and the true classes."""
    graph, y = clusters(seed)
    sign = torch.zeros(graph.num_nodes, 3, dtype=graph.edge_weight.dtype)
    for c, count in enumerate(counts):
        sign[(y == c).nonzero().view(-1)[:count]] = 2 * torch.eye(3, dtype=sign.dtype)[c] - 1
    return LabelTask(graph, sign, False, torch.arange(3), 3), y


def opinion(y: torch.Tensor, right: float = 0.8, seed: int = 0, num_classes: int = 3) -> torch.Tensor:
    """Probabilities that name the class of a share of the nodes, and another one of the rest."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(len(y)) < right, y.numpy(), (y.numpy() + 1) % num_classes)
    prob = rng.dirichlet(np.ones(num_classes), len(y)) * 0.4
    prob[np.arange(len(y)), said] += 0.6
    return torch.from_numpy(prob)


def start_off_degree(graph: CanonicalGraph, num_classes: int, seed: int = 0, coupled: bool = True) -> torch.Tensor:
    """A random start with ⟨u, d⟩ = 0 for every class, zero sum over classes, and unit norm."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(graph.num_nodes, num_classes, generator=generator, dtype=torch.float64)
    if coupled:
        u = u - u.mean(dim=1, keepdim=True)
    degree = graph.degree.double().unsqueeze(-1)
    u = u - degree * (degree * u).sum(dim=0) / degree.square().sum()
    return u / u.norm()
