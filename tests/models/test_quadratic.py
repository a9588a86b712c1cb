"""Harmonic and LGC against dense linear algebra, nearest neighbour against SciPy's shortest paths."""

import numpy as np
import pytest
import torch
from helpers import dense_adjacency, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

from tg_crepe import LGC, Harmonic, NearestNeighbor


def problem(seed: int):
    graph = random_graph(seed, num_nodes=15)
    y = torch.full((15,), -1)
    y[torch.from_numpy(np.random.default_rng(seed).choice(15, 6, replace=False))] = torch.arange(6) % 3
    return graph, dense_adjacency(graph), y, np.eye(4)[:, :3][y.numpy()]  # -1 picks the zero row


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_harmonic_equals_the_dense_solve(seed):
    graph, w, y, onehot = problem(seed)
    free = (y < 0).numpy()
    laplacian = np.diag(w.sum(axis=1)) - w
    expected = np.linalg.solve(laplacian[np.ix_(free, free)], w[np.ix_(free, ~free)] @ onehot[~free])
    u = Harmonic(tol=1e-10).propagate(y, graph.adjacency).u.numpy()
    np.testing.assert_allclose(u[free], expected, atol=1e-6)
    np.testing.assert_allclose(u[~free], onehot[~free], atol=0)
    np.testing.assert_allclose(u.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 0.99])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_lgc_equals_the_dense_solve(alpha, seed):
    graph, w, y, onehot = problem(seed)
    s = w / np.sqrt(np.outer(w.sum(axis=1), w.sum(axis=1)))
    expected = np.linalg.solve(np.eye(15) - alpha * s, onehot)
    result = LGC(alpha=alpha, tol=1e-10).propagate(y, graph.adjacency)
    np.testing.assert_allclose(result.u.numpy(), expected, atol=1e-6 * expected.max())
    free = (y < 0).numpy()
    assert (result.label.numpy()[free] == expected.argmax(axis=1)[free]).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_nearest_neighbor_equals_shortest_paths(seed):
    graph, w, y, _ = problem(seed)
    length = np.where(w > 0, graph.edge_weight.mean().item() / np.where(w > 0, w, 1), 0)
    paths = dijkstra(length, directed=False)
    distance = np.stack([paths[:, (y == c).numpy()].min(axis=1) for c in range(3)], axis=1)
    result = NearestNeighbor().propagate(y, graph.adjacency)
    free = (y < 0).numpy()
    assert (result.label.numpy()[free] == distance.argmin(axis=1)[free]).all()
    np.testing.assert_allclose(1 / result.u.numpy()[free], distance[free], rtol=1e-9)


@pytest.mark.parametrize("model", [Harmonic(tol=1e-10), LGC(tol=1e-10), NearestNeighbor()])
def test_a_finding_is_solved_as_two_classes(model):
    graph, _, y, _ = problem(0)
    y = torch.where(y == 2, 0, y)
    findings = torch.stack([y, torch.where(y >= 0, 1 - y, -1)], dim=1)  # finding 0: class 1, finding 1: class 0
    classes = model.propagate(y, graph.adjacency)
    separate = model.propagate(findings, graph.adjacency)
    assert torch.equal(separate.label[:, 0], classes.label)
    assert torch.equal(separate.label[:, 1], 1 - classes.label)
    share = classes.u / classes.u.sum(dim=1, keepdim=True)
    torch.testing.assert_close(separate.u, share.flip(1), atol=1e-6, rtol=0)


def test_findings_may_be_known_at_different_nodes():
    graph, w, y, _ = problem(1)
    findings = torch.stack([y.clamp(max=1), torch.full_like(y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    u = Harmonic(tol=1e-10).propagate(findings, graph.adjacency).u.numpy()
    laplacian = np.diag(w.sum(axis=1)) - w
    for column in range(2):
        value = findings[:, column].numpy()
        free = value < 0
        expected = np.linalg.solve(laplacian[np.ix_(free, free)], w[np.ix_(free, ~free)] @ value[~free])
        np.testing.assert_allclose(u[free, column], expected, atol=1e-6)


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match=r"'alpha' must lie in \(0, 1\), got 1"):
        LGC(alpha=1)
    with pytest.raises(ValueError, match="'alpha' must be a finite number > 0"):
        LGC(alpha=0)
    with pytest.raises(ValueError, match="'tol' must be"):
        Harmonic(tol=-1)
    with pytest.raises(ValueError, match="'soft_label' must be one of 'calibrated', 'relative', got 'soft'"):
        Harmonic(soft_label="soft")
    with pytest.raises(ValueError, match="'symmetrize' must be one of 'max', 'mean', 'mutual'"):
        LGC(symmetrize="sum")
    assert [repr(m) for m in (LGC(), Harmonic(), NearestNeighbor())] == [
        "LGC(alpha=0.99)",
        "Harmonic()",
        "NearestNeighbor()",
    ]
