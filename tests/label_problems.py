"""Small labelled graphs for hypothesis, with the dense matrix that an oracle needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from helpers import dense_adjacency, moons, random_graph
from hypothesis import assume
from hypothesis import strategies as st

from tg_crepe.graph import CanonicalGraph


@dataclass(frozen=True)
class LabelProblem:
    """A connected graph, its weight matrix, the class of every labelled node (-1 elsewhere) and as one-hot rows."""

    graph: CanonicalGraph
    w: np.ndarray
    y: torch.Tensor

    @property
    def onehot(self) -> np.ndarray:
        return np.eye(4)[:, :3][self.y.numpy()]  # -1 picks the zero row

    @property
    def free(self) -> np.ndarray:
        return (self.y < 0).numpy()

    @property
    def laplacian(self) -> np.ndarray:
        return np.diag(self.w.sum(axis=1)) - self.w


def label_problem(seed: int) -> LabelProblem:
    """A random graph of 15 nodes with two labels of each of three classes."""
    return _labelled(random_graph(seed, num_nodes=15), seed, np.arange(3))


@st.composite
def label_problems(draw: st.DrawFn) -> LabelProblem:
    """Random graphs and moons, with weights of any scale, nodes in any order and any names of the classes."""
    seed = draw(st.integers(0, 10_000))
    graph = random_graph(seed, num_nodes=15) if draw(st.booleans()) else moons(seed, num_nodes=60)[0]
    assume(int(graph.component.max()) == 0)
    graph = graph.with_weight(graph.edge_weight * 10.0 ** draw(st.integers(-6, 6)))
    graph = graph.reorder(torch.from_numpy(np.random.default_rng(seed).permutation(graph.num_nodes)))
    return _labelled(graph, seed, np.array(draw(st.permutations(range(3)))))


def _labelled(graph: CanonicalGraph, seed: int, names: np.ndarray) -> LabelProblem:
    y = torch.full((graph.num_nodes,), -1)
    chosen = np.random.default_rng(seed).choice(graph.num_nodes, 6, replace=False)
    y[torch.from_numpy(chosen)] = torch.from_numpy(names[np.arange(6) % 3])
    return LabelProblem(graph, dense_adjacency(graph), y)


def assert_close(found: torch.Tensor, expected: np.ndarray) -> None:
    """Equal to a millionth of the largest value."""
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6 * np.abs(expected).max(), rtol=0)
