import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import barbell, complete, cycle, dense_laplacian, disjoint, from_dense, path, star

from tg_crepe.graph import CanonicalGraph
from tg_crepe.graph.sparse import normalised_adjacency
from tg_crepe.graph.spectrum import smallest_eigenpairs


def assert_eigenpairs(graph, values, vectors, tolerance):
    """Orthonormal vectors, and the residual that a tolerance promises."""
    laplacian, values, vectors = dense_laplacian(graph), values.numpy(), vectors.numpy()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
    residual = np.linalg.norm(laplacian @ vectors - vectors * values, axis=0)
    assert (residual <= tolerance * values + 1e-12).all()


@given(seed=st.integers(0, 10_000), num_nodes=st.integers(2, 40), count=st.integers(1, 12))
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
def test_normalised_adjacency_agrees_with_dense_algebra(seed):
    graph = random_graph(seed)
    expected = np.eye(graph.num_nodes) - dense_laplacian(graph)
    np.testing.assert_allclose(normalised_adjacency(graph).to_dense().numpy(), expected, atol=1e-14)


def test_a_node_without_edges_has_a_zero_row():
    graph = CanonicalGraph(torch.tensor([[0], [2]]), torch.tensor([4.0]), 3)
    assert normalised_adjacency(graph).to_dense().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
