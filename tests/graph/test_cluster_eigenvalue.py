import numpy as np
import pytest
import torch
from helpers import clusters, random_graph
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import complete, dense_laplacian, disjoint, path, relabelled

from tg_crepe.graph import canonical_graph, knn_graph
from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue


def rate(graph, index):
    """The clock of a small graph, which needs no block to start from."""
    return cluster_eigenvalue(graph, index, torch.zeros(graph.num_nodes, 1))


@pytest.mark.parametrize(
    ("num_labels", "seed", "size", "apart"), [(1, 0, 6, 3), (20, 1, 6, 3), (1, 2, 20, 0), (20, 3, 20, 0)]
)
def test_clock_rate_of_a_large_graph_is_near_the_eigenvalue_and_knows_no_order(
    num_labels, seed, size, apart, monkeypatch
):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 1500)
    x = rng.standard_normal((1500, size)) + apart * np.eye(size)[y]
    graph, _ = canonical_graph(*knn_graph(torch.from_numpy(x), 10, metric="euclidean"), 1500)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[3]
    assert (expected > 0.15) == (apart == 0)  # noise without clusters has no slow mode
    block = torch.zeros(1500, 4, dtype=torch.float64)
    for c in range(4):
        block[np.flatnonzero(y == c)[:num_labels], c] = 1
    monkeypatch.setattr("tg_crepe.graph.cluster_eigenvalue._SMALL", 10)
    found = cluster_eigenvalue(graph, 4, block)
    assert 0.97 * expected <= found <= 1.2 * expected  # a Ritz value lies above, rounding may carry it below
    order = torch.from_numpy(rng.permutation(1500))
    assert cluster_eigenvalue(graph.reorder(order), 4, block[order][:, [2, 0, 3, 1]]) == found


@pytest.mark.parametrize("index", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_clock_rate_is_the_eigenvalue_to_two_significant_digits(seed, index):
    graph, _ = clusters(seed)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[index - 1]
    assert f"{rate(graph, index):.15g}" == f"{float(f'{expected:.1e}'):.15g}"


def test_clock_rate_has_a_floor():
    assert rate(random_graph(0), 1) == 1e-4
    assert rate(path(400), 2) == 1e-4  # 3e-5


@pytest.mark.parametrize("large", [False, True])
def test_islands_leave_the_clock_rate_of_the_largest_part(large, monkeypatch):
    main, _ = clusters(0)
    expected = rate(main, 3)
    small = [complete(4) for _ in range(6)]  # whose own modes are quick
    graph = disjoint([main, *small])
    block = torch.zeros(graph.num_nodes, 3, dtype=torch.float64)
    block[torch.arange(graph.num_nodes), torch.arange(graph.num_nodes) % 3] = 1
    if large:
        monkeypatch.setattr("tg_crepe.graph.cluster_eigenvalue._SMALL", 1)
    assert cluster_eigenvalue(graph, 3, block) == pytest.approx(expected, rel=0.11)


def test_two_separate_clusters_have_the_clock_of_their_inside():
    first, second = random_graph(0), random_graph(1)
    values = np.linalg.eigvalsh(dense_laplacian(disjoint([first, second])))
    assert rate(disjoint([first, second]), 2) == pytest.approx(values[2], rel=0.05)


def test_clock_rate_of_an_index_beyond_the_nodes_is_the_largest_eigenvalue():
    assert rate(complete(3), 10) == rate(complete(3), 3) == 1.5


@given(seed=st.integers(0, 10_000), index=st.integers(1, 6))
def test_relabelled_nodes_leave_the_clock_rate(seed, index):
    graph = random_graph(seed, 40, density=0.1)
    assert rate(relabelled(graph, seed), index) == rate(graph, index)


@given(seed=st.integers(0, 10_000), power=st.integers(-20, 20))
def test_the_unit_of_the_weights_leaves_the_clock_rate(seed, power):
    graph = random_graph(seed, 20)
    assert rate(graph.with_weight(graph.edge_weight * 2.0**power), 3) == rate(graph, 3)
