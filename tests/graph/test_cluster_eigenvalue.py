import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import complete, dense_laplacian, disjoint, from_dense, path, relabelled

from tg_crepe.graph import canonical_graph, knn_graph
from tg_crepe.graph.cluster_eigenvalue import _counted, _krylov_estimate, _taking_part, cluster_eigenvalue
from tg_crepe.graph.communicator import ALONE


def label_block(y, num_labels, seed=0):
    """Some labels of every class, as columns."""
    y, rng = np.asarray(y), np.random.default_rng(seed)
    block = torch.zeros(len(y), y.max() + 1, dtype=torch.float64)
    for c in range(y.max() + 1):
        block[rng.choice(np.flatnonzero(y == c), num_labels, replace=False), c] = 1
    return block


def mixed_block(graph, num_labels=2, seed=0):
    """Labels of three classes that have nothing to do with the graph."""
    return label_block(np.arange(graph.num_nodes) % 3, num_labels, seed)


def blobs(seed, num_nodes=600):
    """Four clusters in six dimensions, well apart, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, num_nodes)
    x = rng.standard_normal((num_nodes, 6)) + 3 * np.eye(6)[y]
    return canonical_graph(*knn_graph(torch.from_numpy(x), 10, metric="euclidean"), num_nodes)[0], y


def with_weak_islands(graph, count, weight):
    """The graph and cliques of five nodes, each on one edge of that weight."""
    w = dense_adjacency(disjoint([graph, *(complete(5) for _ in range(count))]))
    for k in range(count):
        here, there = k * graph.num_nodes // count, graph.num_nodes + 5 * k
        w[here, there] = w[there, here] = weight
    return from_dense(w)


@pytest.mark.parametrize("num_labels", [1, 5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_estimate_is_near_the_eigenvalue_of_clusters_and_knows_no_order(seed, num_labels):
    for (graph, y), index in ((clusters(seed), 3), (blobs(seed), 4)):
        expected = np.linalg.eigvalsh(dense_laplacian(graph))[index - 1]
        block = label_block(y, num_labels, seed)
        found = cluster_eigenvalue(graph, index, block)
        assert found == pytest.approx(expected, rel=0.1)
        order = torch.from_numpy(np.random.default_rng(seed).permutation(graph.num_nodes))
        assert cluster_eigenvalue(graph.reorder(order), index, block[order].flip(1)) == found


@given(seed=st.integers(0, 10_000), index=st.integers(2, 4))
def test_estimate_lies_above_the_eigenvalue(seed, index):
    graph = random_graph(seed, 60, density=0.1)
    expected = np.linalg.eigvalsh(dense_laplacian(graph))[index - 1]
    assert _krylov_estimate(graph, index - 1, mixed_block(graph, 2, seed), 0.15) >= expected * (1 - 1e-9)
    assert cluster_eigenvalue(graph, index, mixed_block(graph, 2, seed)) >= expected * 0.95  # two digits are kept


def dense_estimate(graph, index, block):
    """The eigenvalue where the counts of all modes add up to ``index``, from the eigenvectors of the whole graph."""
    value, mode = np.linalg.eigh(dense_laplacian(graph))
    degree, labelled = dense_adjacency(graph).sum(axis=1), (block != 0).any(dim=1).numpy()
    total, before = 0.0, None
    for k in range(1, len(value)):
        f = mode[labelled, k] / np.sqrt(degree[labelled])
        size = np.abs(f - np.median(f)) * np.sqrt(degree.sum() / index)
        count = min(1.0, (index + 1) * np.minimum(size, 1).mean())
        if total + count >= index - 1e-6:
            share = (index - total) / count
            return value[k] if before is None else before ** (1 - share) * value[k] ** share
        total, before = total + count, value[k]
    return value[-1]


@pytest.mark.parametrize("num_nodes", [5, 8, 12, 20])
def test_a_basis_that_spans_a_small_graph_has_the_estimate_of_its_eigenvectors(num_nodes):
    for seed in range(10):
        graph = random_graph(seed, num_nodes)
        block = mixed_block(graph, 1, seed)
        assert _krylov_estimate(graph, 2, block, 0.15) == pytest.approx(dense_estimate(graph, 2, block), rel=0.1)


def test_modes_count_as_much_as_labels_take_part_in_them():
    # Two clusters of ten nodes on a weak edge: a mode of equal halves is 1/√vol on both sides.
    w = dense_adjacency(disjoint([complete(10), complete(10)]))
    w[0, 10] = w[10, 0] = 1e-3
    volume = w.sum()
    half = torch.full((4, 1), volume**-0.5, dtype=torch.float64) * torch.tensor([[1.0], [1], [-1], [-1]])
    lone = torch.tensor([[100.0], [0], [0], [0]], dtype=torch.float64)  # an island with one label of four
    flat = torch.ones(4, 1, dtype=torch.float64)  # the same everywhere
    part = _taking_part(torch.cat([half, half / 4, lone, flat], dim=1), 2, volume, ALONE)
    np.testing.assert_allclose(part, [1, 0.5, 0.5, 0])
    ten = torch.tensor([[3.0 * volume**-0.5]] + [[-(volume**-0.5) / 3]] * 9, dtype=torch.float64)  # one of ten classes
    np.testing.assert_allclose(_taking_part(ten, 10, volume, ALONE), [1])


def test_counts_add_up_between_eigenvalues_on_a_logarithmic_scale():
    value, part = torch.tensor([0.01, 0.04, 0.16], dtype=torch.float64), torch.tensor([1.0, 0.5, 1.0]).double()
    assert _counted(value, part, 1) == pytest.approx(0.01)
    assert _counted(value, part, 2) == pytest.approx(0.08)  # half of the way from the second to the third
    assert _counted(value, part, 3) == pytest.approx(0.16)  # they do not add up: the last
    assert _counted(value, 0.5 * part, 1) == pytest.approx(0.04 * 4**0.5)


@pytest.mark.parametrize("seed", range(4))
def test_islands_on_weak_edges_hardly_change_the_estimate(seed):
    graph, y = blobs(seed)
    islands = with_weak_islands(graph, 6, 1e-3)
    before, after = (np.linalg.eigvalsh(dense_laplacian(g))[3] for g in (graph, islands))
    assert after < 0.01 * before
    block = label_block(y, 5, seed)
    longer = torch.cat([block, block.new_zeros(30, 4)])
    found = cluster_eigenvalue(graph, 4, block)
    assert 0.75 * found <= cluster_eigenvalue(islands, 4, longer) <= found


def test_islands_of_their_own_leave_the_estimate():
    main, y = clusters(0)
    graph = disjoint([main, *(complete(4) for _ in range(6))])  # whose own modes are quick
    block = label_block(y, 5)
    longer = torch.cat([block, block.new_zeros(24, 3)])
    assert cluster_eigenvalue(graph, 3, longer) == cluster_eigenvalue(main, 3, block)


def test_estimate_has_a_floor():
    graph = random_graph(0)
    assert cluster_eigenvalue(graph, 1, mixed_block(graph)) == 1e-4
    ends = torch.zeros(1000, 2, dtype=torch.float64)
    ends[:500, 0] = ends[500:, 1] = 1
    assert cluster_eigenvalue(path(1000), 2, ends) == 1e-4  # 5e-6
    apart = disjoint([complete(2), complete(2)])
    assert cluster_eigenvalue(apart, 2, torch.ones(4, 2, dtype=torch.float64)) == 1e-4  # labels that excite nothing


def test_an_index_beyond_the_nodes_is_the_largest_eigenvalue():
    block = torch.eye(3, dtype=torch.float64)
    assert cluster_eigenvalue(complete(3), 10, block) == cluster_eigenvalue(complete(3), 3, block) == 1.5


@given(seed=st.integers(0, 10_000), index=st.integers(1, 4))
def test_relabelled_nodes_leave_the_estimate(seed, index):
    graph = random_graph(seed, 60, density=0.1)
    block = mixed_block(graph, 2, seed)
    order = np.random.default_rng(seed).permutation(60)
    assert cluster_eigenvalue(relabelled(graph, seed), index, block[order]) == cluster_eigenvalue(graph, index, block)


@given(seed=st.integers(0, 10_000), power=st.integers(-20, 20))
def test_the_unit_of_the_weights_leaves_the_estimate(seed, power):
    graph = random_graph(seed, 60, density=0.1)
    block = mixed_block(graph, 2, seed)
    scaled = graph.with_weight(graph.edge_weight * 2.0**power)
    assert cluster_eigenvalue(scaled, 3, block) == cluster_eigenvalue(graph, 3, block)
