import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from tg_crepe.graph import CanonicalGraph, canonical_graph, knn_graph
from tg_crepe.graph.spectrum import clock_rate, normalised_adjacency, smallest_eigenpairs


def from_dense(w):
    row, col = np.triu(w, 1).nonzero()
    return CanonicalGraph(torch.from_numpy(np.stack([row, col])), torch.from_numpy(w[row, col]), len(w))


def dense_laplacian(graph):
    """I − D^{-1/2} W D^{-1/2}."""
    w = dense_adjacency(graph)
    root = np.sqrt(w.sum(axis=1))
    return np.eye(len(w)) - w / np.outer(root, root)


def disjoint(graphs):
    blocks = [dense_adjacency(graph) for graph in graphs]
    w = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        w[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return from_dense(w)


def path(num_nodes):
    return from_dense(np.diag(np.ones(num_nodes - 1), 1) + np.diag(np.ones(num_nodes - 1), -1))


def complete(num_nodes):
    return from_dense(np.ones((num_nodes, num_nodes)) - np.eye(num_nodes))


def cycle(num_nodes):
    shift = np.roll(np.eye(num_nodes), 1, axis=0)
    return from_dense(shift + shift.T)


def star(num_nodes):
    w = np.zeros((num_nodes, num_nodes))
    w[0, 1:] = w[1:, 0] = 1
    return from_dense(w)


def barbell(size):
    """Two cliques joined by one edge."""
    w = np.zeros((2 * size, 2 * size))
    w[:size, :size] = w[size:, size:] = 1
    np.fill_diagonal(w, 0)
    w[size - 1, size] = w[size, size - 1] = 1
    return from_dense(w)


def relabelled(graph, seed):
    label = np.random.default_rng(seed).permutation(graph.num_nodes)
    return from_dense(dense_adjacency(graph)[np.ix_(label, label)])


def assert_eigenpairs(graph, values, vectors, tolerance):
    """Orthonormal vectors, and the residual that a tolerance promises."""
    laplacian, values, vectors = dense_laplacian(graph), values.numpy(), vectors.numpy()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
    residual = np.linalg.norm(laplacian @ vectors - vectors * values, axis=0)
    assert (residual <= tolerance * values + 1e-12).all()


@given(seed=st.integers(0, 10_000), num_nodes=st.integers(2, 40), count=st.integers(1, 12))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_eigenvalues_of_random_graphs_agree_with_dense_algebra(seed, num_nodes, count):
    graph = random_graph(seed, num_nodes, density=0.2)
    count = min(count, num_nodes)
    values, vectors = smallest_eigenpairs(graph, count, residual=1e-7)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(dense_laplacian(graph))[:count], atol=1e-10)
    assert_eigenpairs(graph, values, vectors, 1e-7)
    assert values.dtype == vectors.dtype == torch.float64


@pytest.mark.parametrize("seed", range(5))
def test_the_default_tolerance_gives_four_digits(seed):
    graph, _ = clusters(seed)
    values, vectors = smallest_eigenpairs(graph, 6)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[:6]
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-4, atol=1e-12)
    assert (values.numpy() >= expected - 1e-12).all()  # Ritz values lie above
    assert_eigenpairs(graph, values, vectors, 3e-3)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_disconnected_graph_has_a_zero_for_every_component(count):
    graph = disjoint([random_graph(seed, 8 + seed) for seed in range(3)])
    values, vectors = smallest_eigenpairs(graph, count, residual=1e-7)
    assert values[:3].tolist() == [0.0] * min(count, 3)
    assert bool((values[3:] > 1e-3).all())
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(dense_laplacian(graph))[:count], atol=1e-10)
    assert_eigenpairs(graph, values, vectors, 1e-7)


def test_the_kernel_is_the_root_of_the_degree_on_every_component():
    graph = disjoint([random_graph(seed, 8) for seed in range(2)])
    _, vectors = smallest_eigenpairs(graph, 2)
    root = graph.degree.sqrt()
    for number in range(2):
        expected = torch.where(graph.component == number, root, 0.0)
        torch.testing.assert_close(vectors[:, number], expected / expected.norm())


REPEATED = {
    "complete": complete(30),
    "star": star(30),
    "cycle": cycle(30),
    "barbell": barbell(10),
    "two equal components": disjoint([random_graph(0), random_graph(0)]),
    "single edges": disjoint([complete(2), complete(2), complete(2)]),
}


@pytest.mark.parametrize("name", list(REPEATED))
def test_repeated_eigenvalues_are_found_as_often_as_they_occur(name):
    # They end a Lanczos iteration early, and what follows must not be rounding noise.
    graph = REPEATED[name]
    expected = np.linalg.eigvalsh(dense_laplacian(graph))
    for count in (2, 5, graph.num_nodes):
        values, vectors = smallest_eigenpairs(graph, count, residual=1e-9)
        np.testing.assert_allclose(values.numpy(), expected[:count], atol=1e-10)
        assert_eigenpairs(graph, values, vectors, 1e-9)


@pytest.mark.parametrize("num_nodes", [2, 3, 50, 300])
def test_eigenvalues_of_a_path_are_known_in_closed_form(num_nodes):
    count = min(4, num_nodes)
    values, _ = smallest_eigenpairs(path(num_nodes), count)
    expected = 1 - np.cos(np.pi * np.arange(count) / (num_nodes - 1))
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-4, atol=1e-12)


def test_the_second_eigenvector_cuts_a_path_in_the_middle():
    _, vectors = smallest_eigenpairs(path(40), 2, residual=1e-6)
    sign = vectors[:, 1].sign() * vectors[0, 1].sign()
    assert sign.tolist() == [1.0] * 20 + [-1.0] * 20


@pytest.mark.parametrize("seed", range(3))
def test_the_second_eigenvector_separates_the_cliques_of_a_barbell(seed):
    label = np.random.default_rng(seed).permutation(20)
    graph = from_dense(dense_adjacency(barbell(10))[np.ix_(label, label)])
    values, vectors = smallest_eigenpairs(graph, 2)
    first = label < 10
    side = vectors[:, 1].numpy() > 0
    assert side.tolist() in (first.tolist(), (~first).tolist())
    assert 0 < float(values[1]) < 0.05


def test_single_precision_graphs_agree_to_single_precision():
    graph = random_graph(0, 40, density=0.2)
    single = CanonicalGraph(graph.edge_index, graph.edge_weight.float(), graph.num_nodes)
    values, _ = smallest_eigenpairs(single, 5, residual=1e-5)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(dense_laplacian(graph))[:5], atol=1e-6)


def test_the_same_graph_gives_the_same_bits():
    graph, _ = clusters(0)
    torch.manual_seed(1)
    first = smallest_eigenpairs(graph, 4)
    torch.manual_seed(2)
    second = smallest_eigenpairs(graph, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    smallest_eigenpairs(random_graph(0), 4)
    assert torch.equal(torch.get_rng_state(), before)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_normalised_adjacency_agrees_with_dense_algebra(seed):
    graph = random_graph(seed)
    expected = np.eye(graph.num_nodes) - dense_laplacian(graph)
    np.testing.assert_allclose(normalised_adjacency(graph).to_dense().numpy(), expected, atol=1e-14)


def test_a_node_without_edges_has_a_zero_row():
    graph = CanonicalGraph(torch.tensor([[0], [2]]), torch.tensor([4.0]), 3)
    assert normalised_adjacency(graph).to_dense().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


# The clock.


def rate(graph, index):
    """The clock of a small graph, which needs no block to start from."""
    return clock_rate(graph, index, torch.zeros(graph.num_nodes, 1))


@pytest.mark.parametrize(("num_labels", "seed"), [(1, 0), (20, 1)])
def test_clock_rate_of_a_large_graph_is_near_the_eigenvalue_and_knows_no_order(num_labels, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 1500)
    x = rng.standard_normal((1500, 6)) + 3 * np.eye(6)[y]
    graph, _ = canonical_graph(*knn_graph(torch.from_numpy(x), 10, metric="euclidean"), 1500)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[3]
    block = torch.zeros(1500, 4, dtype=torch.float64)
    for c in range(4):
        block[np.flatnonzero(y == c)[:num_labels], c] = 1
    monkeypatch.setattr("tg_crepe.graph.spectrum._SMALL", 10)
    found = clock_rate(graph, 4, block)
    assert 0.97 * expected <= found <= 1.2 * expected  # a Ritz value lies above, rounding may carry it below
    order = torch.from_numpy(rng.permutation(1500))
    assert clock_rate(graph.reordered(order), 4, block[order][:, [2, 0, 3, 1]]) == found


@pytest.mark.parametrize("index", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_clock_rate_is_the_eigenvalue_to_two_significant_digits(seed, index):
    graph, _ = clusters(seed)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[index - 1]
    assert f"{rate(graph, index):.15g}" == f"{float(f'{expected:.1e}'):.15g}"


def test_clock_rate_has_a_floor():
    graph = disjoint([random_graph(0), random_graph(1)])
    assert rate(graph, 1) == rate(graph, 2) == 1e-4
    assert rate(path(400), 2) == 1e-4  # 3e-5
    assert rate(graph, 3) > 1e-3


def test_clock_rate_of_an_index_beyond_the_nodes_is_the_largest_eigenvalue():
    assert rate(complete(3), 10) == rate(complete(3), 3) == 1.5


@given(seed=st.integers(0, 10_000), index=st.integers(1, 6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_relabelled_nodes_leave_the_clock_rate(seed, index):
    graph = random_graph(seed, 40, density=0.1)
    assert rate(relabelled(graph, seed), index) == rate(graph, index)


@given(seed=st.integers(0, 10_000), power=st.integers(-20, 20))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_the_unit_of_the_weights_leaves_the_clock_rate(seed, power):
    graph = random_graph(seed, 20)
    assert rate(graph.with_weight(graph.edge_weight * 2.0**power), 3) == rate(graph, 3)
