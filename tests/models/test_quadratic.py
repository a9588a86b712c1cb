"""Harmonic and LGC against dense linear algebra, nearest neighbour against SciPy's shortest paths."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from label_problems import assert_close, label_problem, label_problems
from scipy.sparse.csgraph import dijkstra

from tg_crepe import LGC, Harmonic, NearestNeighbor
from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue


@pytest.mark.parametrize("label_weight", [1.0, 0.01, 30.0])
@given(problem=label_problems())
def test_harmonic_equals_the_dense_solve(label_weight, problem):
    free, onehot = problem.free, problem.onehot
    weight = np.where(free[:, None] ^ free[None, :], label_weight, 1) * problem.w
    laplacian = np.diag(weight.sum(axis=1)) - weight
    expected = np.linalg.solve(laplacian[np.ix_(free, free)], weight[np.ix_(free, ~free)] @ onehot[~free])
    u = Harmonic(label_weight=label_weight, tol=1e-12).propagate(problem.y, problem.graph.adjacency).u
    assert_close(u[free], expected)
    np.testing.assert_allclose(u[~free], onehot[~free], atol=0)
    np.testing.assert_allclose(u.sum(dim=1), 1, atol=1e-6)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 0.99])
@given(problem=label_problems())
def test_lgc_equals_the_dense_solve(alpha, balanced, problem):
    s = problem.w / np.sqrt(np.outer(problem.w.sum(axis=1), problem.w.sum(axis=1)))
    source = problem.onehot / problem.onehot.sum(axis=0) if balanced else problem.onehot
    expected = np.linalg.solve(np.eye(len(s)) - alpha * s, source)
    result = LGC(alpha=alpha, balanced=balanced, tol=1e-12).propagate(problem.y, problem.graph.adjacency)
    assert_close(result.u, expected)
    free = problem.free
    assert (result.label.numpy()[free] == expected.argmax(axis=1)[free]).all()


def test_balanced_sources_give_a_class_with_many_labels_no_more_weight():
    # A path: class 0 has three labels at one end, class 1 a single one at the other.
    path = torch.stack([torch.arange(10), torch.arange(1, 11)])
    edge_index = torch.cat([path, path.flip(0)], dim=1)
    y = torch.full((11,), -1)
    y[:3], y[10] = 0, 1
    plain = LGC().propagate(y, edge_index)
    balanced = LGC(balanced=True).propagate(y, edge_index)
    assert int((plain.label == 0).sum()) > int((balanced.label == 0).sum())


@given(problem=label_problems())
def test_the_clock_gives_lgc_and_harmonic_their_parameters(problem):
    labels, classes = problem.onehot.sum(), problem.onehot.shape[1]
    rate = cluster_eigenvalue(problem.graph, classes, torch.from_numpy(problem.onehot)) * np.sqrt(labels / classes)
    rate = 1 / (1 / rate + 1 / 0.4)  # a diffusion's own bound
    args = (problem.y, problem.graph.adjacency)
    found = LGC(alpha="auto", tol=1e-12).propagate(*args).u
    torch.testing.assert_close(LGC(1 / (1 + rate), tol=1e-12).propagate(*args).u, found, atol=1e-6, rtol=1e-5)
    found = Harmonic(label_weight="auto", tol=1e-12).propagate(*args).u
    weight = max(rate * len(problem.w) / labels, 1.0)
    torch.testing.assert_close(Harmonic(weight, tol=1e-12).propagate(*args).u, found, atol=1e-6, rtol=1e-5)


@given(seed=st.integers(0, 10_000))
def test_nearest_neighbor_equals_shortest_paths(seed):
    problem = label_problem(seed)
    w, y = problem.w, problem.y
    length = np.where(w > 0, problem.graph.edge_weight.mean().item() / np.where(w > 0, w, 1), 0)
    paths = dijkstra(length, directed=False)
    distance = np.stack([paths[:, (y == c).numpy()].min(axis=1) for c in range(3)], axis=1)
    result = NearestNeighbor().propagate(y, problem.graph.adjacency)
    free = problem.free
    assert (result.label.numpy()[free] == distance.argmin(axis=1)[free]).all()
    np.testing.assert_allclose(1 / result.u.numpy()[free], distance[free], rtol=1e-9)


@pytest.mark.parametrize("model", [Harmonic(tol=1e-10), LGC(tol=1e-10), NearestNeighbor()])
def test_a_finding_is_solved_as_two_classes(model):
    problem = label_problem(0)
    y = torch.where(problem.y == 2, 0, problem.y)
    findings = torch.stack([y, torch.where(y >= 0, 1 - y, -1)], dim=1)  # finding 0: class 1, finding 1: class 0
    classes = model.propagate(y, problem.graph.adjacency)
    separate = model.propagate(findings, problem.graph.adjacency)
    assert torch.equal(separate.label[:, 0], classes.label)
    assert torch.equal(separate.label[:, 1], 1 - classes.label)
    share = classes.u / classes.u.sum(dim=1, keepdim=True)
    torch.testing.assert_close(separate.u, share.flip(1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("label_weight", [1.0, 4.0])
def test_findings_may_be_known_at_different_nodes(label_weight):
    problem = label_problem(1)
    findings = torch.stack([problem.y.clamp(max=1), torch.full_like(problem.y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    model = Harmonic(label_weight=label_weight, tol=1e-10)
    u = model.propagate(findings, problem.graph.adjacency).u.numpy()
    for column in range(2):
        value = findings[:, column].numpy()
        free = value < 0
        weight = np.where(free[:, None] ^ free[None, :], label_weight, 1) * problem.w
        laplacian = np.diag(weight.sum(axis=1)) - weight
        expected = np.linalg.solve(laplacian[np.ix_(free, free)], weight[np.ix_(free, ~free)] @ value[~free])
        np.testing.assert_allclose(u[free, column], expected, atol=1e-6)


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match=r"'alpha' must lie in \(0, 1\), got 1"):
        LGC(alpha=1)
    with pytest.raises(ValueError, match="'alpha' must be a finite number > 0"):
        LGC(alpha=0)
    with pytest.raises(ValueError, match="'alpha' must be one of 'auto', got 'time'"):
        LGC(alpha="time")
    with pytest.raises(ValueError, match="'label_weight' must be one of 'auto', got 'wnll'"):
        Harmonic(label_weight="wnll")
    with pytest.raises(ValueError, match="'tol' must be"):
        Harmonic(tol=-1)
    with pytest.raises(ValueError, match="'label_weight' must be a finite number > 0, got 0"):
        Harmonic(label_weight=0)
    with pytest.raises(ValueError, match="'soft_label' must be one of 'calibrated', 'relative', got 'soft'"):
        Harmonic(soft_label="soft")
    with pytest.raises(ValueError, match="'symmetrize' must be one of 'max', 'mean', 'mutual'"):
        LGC(symmetrize="sum")
    assert [repr(m) for m in (LGC(), Harmonic(), NearestNeighbor())] == [
        "LGC(alpha=0.99, balanced=False)",
        "Harmonic(label_weight=1.0)",
        "NearestNeighbor()",
    ]
