"""Sparse label propagation: cuts that can be read off, its symmetries, and GraphLearning's iteration."""

import warnings

import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, moons, random_graph
from hypothesis import given
from label_problems import label_problem, label_problems
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from tg_crepe import ConvergenceWarning, SparseLP
from tg_crepe.graph import CanonicalGraph


def energy(w: np.ndarray, u: torch.Tensor) -> np.ndarray:
    """Σ_{i<j} w_ij |u_i − u_j| of every column."""
    u = u.double().numpy()
    return np.einsum("ij,ijc->c", w, np.abs(u[:, None] - u[None])) / 2


def largest_flow(w: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
    """The largest flow from the positive to the negative nodes, which is the smallest cut; on rounded weights."""
    n, unit = len(w), 1e8 / w.sum()
    capacity = np.zeros((n + 2, n + 2), dtype=np.int32)
    capacity[:n, :n] = np.round(w * unit)
    capacity[n, :n][positive] = capacity[:n, n + 1][negative] = 2**30
    return maximum_flow(csr_matrix(capacity), n, n + 1).flow_value / unit


@given(problem=label_problems())
def test_the_energy_is_the_largest_flow(problem):
    result = SparseLP(tol=1e-8).propagate(problem.y, problem.graph.adjacency)
    assert result.status == "converged"
    found = energy(problem.w, result.u)
    for c in range(3):
        expected = largest_flow(problem.w, (problem.y == c).numpy(), ((problem.y >= 0) & (problem.y != c)).numpy())
        np.testing.assert_allclose(found[c], expected, rtol=1e-5, atol=1e-5 * problem.w.sum() / 15)
    assert float(result.trace["gap"][-1]) <= 1e-8
    np.testing.assert_allclose(result.trace["energy"][-1], found, rtol=1e-9)


def test_a_node_between_labels_goes_with_the_heavier_side():
    # Node 0 hangs on labelled nodes alone: weights 3 and 2 to class 0, 4 to class 1, so 5 against 4.
    graph = CanonicalGraph(torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3]]), torch.tensor([3.0, 2.0, 4.0, 1.0]), 4)
    result = SparseLP().propagate(torch.tensor([-1, 0, 0, 1]), graph.adjacency)
    assert result.label.tolist() == [0, 0, 0, 1]
    torch.testing.assert_close(result.u[0], torch.tensor([1.0, 0.0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(result.trace["energy"][-1], torch.tensor([5.0, 5.0], dtype=torch.float64))


def test_the_weakest_edge_of_a_path_is_cut():
    path = torch.stack([torch.arange(5), torch.arange(1, 6)])
    graph = CanonicalGraph(path, torch.tensor([3.0, 2.0, 4.0, 1.0, 5.0]), 6)
    y = torch.tensor([0, -1, -1, -1, -1, 1])
    result = SparseLP(tol=1e-8).propagate(y, graph.adjacency)
    assert result.label.tolist() == [0, 0, 0, 0, 1, 1]
    torch.testing.assert_close(result.u[:, 0], torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))


def test_few_labels_are_cut_off_and_a_tie_goes_to_the_lowest_class():
    # A clique with one label of each of three classes: cutting one node off costs less than any other cut.
    n = 12
    y = torch.full((n,), -1)
    y[:3] = torch.tensor([2, 1, 0])
    clique = torch.combinations(torch.arange(n)).t()
    result = SparseLP().propagate(y, CanonicalGraph(clique, torch.ones(clique.size(1)), n).adjacency)
    assert torch.equal(result.u[3:], torch.zeros(n - 3, 3))
    assert result.label.tolist() == [2, 1, 0] + [0] * (n - 3)


def test_the_order_of_nodes_and_the_names_of_classes_do_not_matter():
    graph, truth = clusters(1)
    y = torch.full((150,), -1)
    y[::10] = truth[::10]
    result = SparseLP(tol=1e-9).propagate(y, graph.adjacency)
    order = torch.from_numpy(np.random.default_rng(0).permutation(150))
    moved = SparseLP(tol=1e-9).propagate(y[order], graph.reorder(order).adjacency)
    torch.testing.assert_close(moved.u, result.u[order], atol=1e-6, rtol=0)
    renamed = SparseLP(tol=1e-9).propagate(torch.where(y >= 0, 2 - y, -1), graph.adjacency)
    torch.testing.assert_close(renamed.u, result.u.flip(1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_the_scale_of_the_weights_does_not_matter(factor):
    graph, truth = moons(0)
    y = torch.full((300,), -1)
    y[::30] = truth[::30]
    one = SparseLP().propagate(y, graph.adjacency)
    other = SparseLP().propagate(y, graph.with_weight(factor * graph.edge_weight).adjacency)
    torch.testing.assert_close(one.u, other.u, atol=1e-6, rtol=0)
    assert one.trace["step"][-1] == other.trace["step"][-1]


@pytest.mark.filterwarnings("ignore::tg_crepe.warnings.GraphWarning")
def test_components_are_solved_each_on_their_own():
    one, two = moons(0, num_nodes=60)[0], random_graph(1, num_nodes=20)
    w = np.zeros((80, 80))
    w[:60, :60], w[60:, 60:] = dense_adjacency(one), dense_adjacency(two)
    y = torch.full((80,), -1)
    y[[0, 20, 45]], y[[60, 79]] = torch.tensor([0, 1, 0]), torch.tensor([1, 0])
    both = SparseLP(tol=1e-9).propagate(y, csr_matrix(w))
    parts = [SparseLP(tol=1e-9).propagate(y[part], csr_matrix(w[part, part])) for part in (slice(60), slice(60, 80))]
    np.testing.assert_allclose(energy(w, both.u), sum(p.trace["energy"][-1].numpy() for p in parts), rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_result_has_the_type_of_the_weights(dtype):
    graph, truth = moons(2)
    y = torch.full((300,), -1)
    y[::15] = truth[::15]
    result = SparseLP().propagate(y, graph.with_weight(graph.edge_weight.to(dtype)).adjacency)
    exact = SparseLP(tol=1e-9).propagate(y, graph.adjacency)
    assert result.u.dtype == dtype
    assert result.status == "converged"
    np.testing.assert_allclose(result.trace["energy"][-1], exact.trace["energy"][-1], rtol=1e-4)


def test_a_finding_is_its_own_cut():
    problem = label_problem(1)
    findings = torch.stack([problem.y.clamp(max=1), torch.full_like(problem.y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    result = SparseLP(tol=1e-9).propagate(findings, problem.graph.adjacency)
    for column in range(2):
        value = findings[:, column].numpy()
        expected = largest_flow(problem.w, value == 1, value == 0)
        np.testing.assert_allclose(energy(problem.w, result.u)[column], expected, rtol=1e-5)
    assert torch.equal(result.label[findings < 0], (result.u[findings < 0] > 0.5).long())


def test_a_start_is_taken_and_left_as_it_was():
    problem = label_problem(2)
    start = torch.rand(15, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4 - 2
    kept = start.clone()
    result = SparseLP(tol=1e-9).propagate(problem.y, problem.graph.adjacency, u0=start)
    other = SparseLP(tol=1e-9).propagate(problem.y, problem.graph.adjacency)
    torch.testing.assert_close(result.trace["energy"][-1], other.trace["energy"][-1])
    assert torch.equal(start, kept)


def test_the_limit_is_told():
    graph, truth = moons(0)
    y = torch.full((300,), -1)
    y[[0, 1]] = truth[[0, 1]]
    y[2:20] = torch.where(torch.arange(18) % 2 == 0, truth[2:20], -1)
    with pytest.warns(ConvergenceWarning, match="SparseLP ended with status 'step_limit'"):
        result = SparseLP(tol=1e-12, max_iterations=3).propagate(y, graph.adjacency)
    assert result.trace["step"].tolist() == [0, 3]
    assert torch.isfinite(result.prob).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_as_published_equals_graphlearning(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gl = pytest.importorskip("graphlearning")
    graph, truth = clusters(seed)
    chosen = np.random.default_rng(seed).choice(150, 15, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = gl.ssl.sparse_label_propagation(csr_matrix(dense_adjacency(graph)))
        expected = model.fit(chosen, truth.numpy()[chosen])
    y = torch.full((150,), -1)
    y[chosen] = truth[chosen]
    with pytest.warns(ConvergenceWarning, match="'step_limit'"):
        result = SparseLP(as_published=True).propagate(y, graph.adjacency)
    np.testing.assert_allclose(result.u.numpy(), expected, atol=1e-6)
    free = (y < 0).numpy()
    assert (result.label.numpy()[free] == expected.argmax(axis=1)[free]).all()
    assert result.status == "step_limit"


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match="'tol' must be a finite number > 0, got 0"):
        SparseLP(tol=0)
    with pytest.raises(ValueError, match="'max_iterations' must be an integer >= 1, got 0"):
        SparseLP(max_iterations=0)
    assert repr(SparseLP()) == "SparseLP(tol=1e-05, as_published=False)"
