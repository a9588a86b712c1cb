"""The p-Laplacian against SciPy's dense minimisers, its symmetries, and the harmonic solution at p = 2."""

import numpy as np
import pytest
import torch
from helpers import clusters, moons
from hypothesis import given
from label_problems import LabelProblem, label_problem, label_problems
from scipy.optimize import minimize

from tg_crepe import ConvergenceWarning, Harmonic, PLaplace


def dense_minimum(w: np.ndarray, value: np.ndarray, free: np.ndarray, p: float) -> np.ndarray:
    """The values of one column at the free nodes, by L-BFGS-B on the plain energy."""
    i, j = np.nonzero(np.triu(w))
    weight = w[i, j] / w.max()

    def energy_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        u = value.copy()
        u[free] = x
        difference = u[i] - u[j]
        flow = weight * np.abs(difference) ** (p - 1) * np.sign(difference)
        gradient = np.bincount(i, flow, len(u)) - np.bincount(j, flow, len(u))
        return (flow * difference).sum() / p, gradient[free]

    x = np.full(free.sum(), 0.5)
    for _ in range(20):  # anew from where it stopped, until it does not move
        last = x
        x = minimize(
            energy_and_gradient, x, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(x),
            options={"ftol": 0, "gtol": 1e-15, "maxiter": 5000, "maxfun": 20_000, "maxcor": 50},
        ).x  # fmt: skip
        if np.abs(x - last).max() < 1e-10:
            break
    return x


@pytest.mark.parametrize("p", [1.2, 1.5, 3.0, 6.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_dense_minimiser(p, seed):
    problem = label_problem(seed)
    result = PLaplace(p=p, tol=1e-7).propagate(problem.y, problem.graph.adjacency)
    assert result.status == "converged"
    for column in range(3):
        expected = dense_minimum(problem.w, problem.onehot[:, column], problem.free, p)
        np.testing.assert_allclose(result.u.numpy()[problem.free, column], expected, atol=1e-5)
    assert np.array_equal(result.u.numpy()[~problem.free], problem.onehot[~problem.free])


@given(problem=label_problems())
def test_p_of_two_is_harmonic(problem):
    result = PLaplace(p=2, tol=1e-6).propagate(problem.y, problem.graph.adjacency)
    expected = Harmonic(tol=1e-10).propagate(problem.y, problem.graph.adjacency)
    torch.testing.assert_close(result.u, expected.u, atol=1e-5, rtol=0)


@pytest.mark.parametrize("p", [1.3, 3.0, 8.0])
@given(problem=label_problems())
def test_values_lie_between_the_labels(p, problem):
    u = PLaplace(p=p).propagate(problem.y, problem.graph.adjacency).u
    assert float(u.min()) >= 0
    assert float(u.max()) <= 1
    neighbours = problem.w > 0
    for i in np.flatnonzero(problem.free):  # and between those of their neighbours
        around = u.numpy()[neighbours[i]]
        assert (u.numpy()[i] >= around.min(axis=0) - 1e-6).all()
        assert (u.numpy()[i] <= around.max(axis=0) + 1e-6).all()


def labelled_clusters() -> tuple[LabelProblem, torch.Tensor]:
    graph, truth = clusters(1)
    y = torch.full((150,), -1)
    y[::15] = truth[::15]
    return graph, y


@pytest.mark.parametrize("p", [1.5, 4.0])
def test_the_order_of_nodes_and_the_names_of_classes_do_not_matter(p):
    graph, y = labelled_clusters()
    model = PLaplace(p=p, tol=1e-6)
    result = model.propagate(y, graph.adjacency)
    order = torch.from_numpy(np.random.default_rng(0).permutation(150))
    moved = model.propagate(y[order], graph.reorder(order).adjacency)
    torch.testing.assert_close(moved.u, result.u[order], atol=1e-5, rtol=0)
    top = int(y.max())
    renamed = model.propagate(torch.where(y >= 0, top - y, -1), graph.adjacency)
    torch.testing.assert_close(renamed.u, result.u.flip(1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("p", [1.5, 4.0])
@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_the_scale_of_the_weights_does_not_matter(p, factor):
    graph, y = labelled_clusters()
    one = PLaplace(p=p).propagate(y, graph.adjacency)
    other = PLaplace(p=p).propagate(y, graph.with_weight(factor * graph.edge_weight).adjacency)
    torch.testing.assert_close(one.u, other.u, atol=1e-6, rtol=0)
    assert one.trace["step"][-1] == other.trace["step"][-1]


@pytest.mark.parametrize("p", [20.0, 60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_powers_stay_finite(p, dtype):
    graph, truth = moons(1, num_nodes=100)
    y = torch.full((100,), -1)
    y[:4] = truth[:4]
    result = PLaplace(p=p).propagate(y, graph.with_weight(graph.edge_weight.to(dtype)).adjacency)
    assert result.u.dtype == dtype
    for value in (result.u, result.prob, result.certainty, result.trace["energy"], result.trace["gap"]):
        assert torch.isfinite(value).all()


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_single_precision_gives_the_same_labels(p):
    graph, y = labelled_clusters()
    single = PLaplace(p=p).propagate(y, graph.with_weight(graph.edge_weight.float()).adjacency)
    double = PLaplace(p=p).propagate(y, graph.adjacency)
    torch.testing.assert_close(single.u.double(), double.u, atol=1e-4, rtol=0)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_a_finding_is_a_problem_of_its_own(p):
    problem = label_problem(1)
    findings = torch.stack([problem.y.clamp(max=1), torch.full_like(problem.y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    result = PLaplace(p=p, tol=1e-6).propagate(findings, problem.graph.adjacency)
    for column in range(2):
        value = findings[:, column].numpy()
        expected = dense_minimum(problem.w, np.maximum(value, 0).astype(float), value < 0, p)
        np.testing.assert_allclose(result.u.numpy()[value < 0, column], expected, atol=1e-5)
    assert torch.equal(result.label[findings < 0], (result.u[findings < 0] > 0.5).long())


def test_the_limit_is_told():
    graph, y = labelled_clusters()
    with pytest.warns(ConvergenceWarning, match="PLaplace ended with status 'step_limit'"):
        result = PLaplace(p=8, max_steps=3).propagate(y, graph.adjacency)
    assert torch.isfinite(result.prob).all()


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match=r"'p' must be above 1 \(p = 1 is SparseLP\), got 1"):
        PLaplace(p=1)
    with pytest.raises(ValueError, match="'p' must be a finite number > 0, got inf"):
        PLaplace(p=float("inf"))
    with pytest.raises(ValueError, match="'tol' must be"):
        PLaplace(tol=0)
    with pytest.raises(ValueError, match="'max_steps' must be an integer >= 1"):
        PLaplace(max_steps=0)
    assert repr(PLaplace()) == "PLaplace(p=3.0)"
