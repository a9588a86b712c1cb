import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import dense_adjacency, random_graph
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import join_graphs


def both_ways(graph):
    return torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)


def graphs(seed: int = 0, count: int = 3):
    return [random_graph(seed + number, num_nodes=12) for number in range(count)]


def dense(edge_index, edge_weight, num_nodes=12):
    return sp.coo_array((edge_weight.numpy(), edge_index.numpy()), (num_nodes, num_nodes)).toarray()


@given(seed=st.integers(0, 10_000), share=st.lists(st.floats(0.01, 10), min_size=3, max_size=3))
def test_the_sum_is_that_of_dense_matrices_at_one_mean_degree(seed, share):
    parts = graphs(seed)
    found = dense(*join_graphs([both_ways(part) for part in parts], share, num_nodes=12))
    matrices = [dense_adjacency(part) for part in parts]
    expected = sum(a / sum(share) * w / w.sum(axis=1).mean() for a, w in zip(share, matrices, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert found.sum(axis=1).mean() == pytest.approx(1)


def test_the_unit_of_the_weights_of_a_graph_does_not_matter():
    one, two, three = map(both_ways, graphs())
    expected = dense(*join_graphs([one, two, three], [1, 2, 3]))
    found = dense(*join_graphs([one, (two[0], 1e6 * two[1]), (three[0], 1e-6 * three[1])], [1, 2, 3]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_order_of_graphs_edges_and_nodes_does_not_matter():
    parts = [both_ways(part) for part in graphs()]
    expected = dense(*join_graphs(parts, [1, 2, 3]))
    order = torch.randperm(parts[0][0].size(1), generator=torch.Generator().manual_seed(0))
    shuffled = [(parts[0][0][:, order], parts[0][1][order]), *parts[1:]]
    assert np.array_equal(dense(*join_graphs(shuffled, [1, 2, 3])), expected)
    np.testing.assert_allclose(dense(*join_graphs(parts[::-1], [3, 2, 1])), expected, rtol=1e-14)
    place = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    moved = dense(*join_graphs([(place[edges], weight) for edges, weight in parts], [1, 2, 3]))
    np.testing.assert_allclose(moved[np.ix_(place, place)], expected, rtol=1e-12)


def test_shares_are_equal_where_none_are_given():
    parts = [both_ways(part) for part in graphs()]
    assert all(
        torch.equal(one, other) for one, other in zip(join_graphs(parts), join_graphs(parts, [5, 5, 5]), strict=True)
    )


def test_a_share_of_zero_and_a_graph_without_edges_take_no_part():
    one, two, _ = map(both_ways, graphs())
    alone = dense(*join_graphs([one]))
    np.testing.assert_allclose(dense(*join_graphs([one, two], [1, 0])), alone)
    empty = torch.empty(2, 0, dtype=torch.long)
    np.testing.assert_allclose(dense(*join_graphs([one, (empty, None)], [1, 1])), 0.5 * alone)
    edge_index, edge_weight = join_graphs([(empty, None), (empty, None)], num_nodes=4)
    assert edge_index.shape == (2, 0)
    assert edge_weight.shape == (0,)


def test_a_node_that_is_isolated_in_one_graph_is_reached_through_the_other():
    path = torch.tensor([[0, 1], [1, 2]])
    tie = torch.tensor([[2], [3]])
    edge_index, edge_weight = join_graphs([(path, None), (tie, None)], [0.9, 0.1])
    assert [2, 3] in edge_index.t().tolist()
    assert bool((edge_weight > 0).all())


def test_sparse_matrices_and_unweighted_edges_are_graphs():
    one, two, _ = graphs()
    matrix = sp.csr_array(dense_adjacency(one))
    assert np.array_equal(
        dense(*join_graphs([matrix, both_ways(two)])), dense(*join_graphs([both_ways(one), both_ways(two)]))
    )
    ones = (two.edge_index, torch.ones(two.num_edges, dtype=torch.float64))
    expected = dense(*join_graphs([both_ways(one), ones]))
    np.testing.assert_allclose(dense(*join_graphs([both_ways(one), (two.edge_index, None)])), expected)


def test_inputs_are_not_modified():
    parts = [both_ways(part) for part in graphs()]
    before = [(edges.clone(), weight.clone()) for edges, weight in parts]
    join_graphs(parts, [1, 2, 3])
    for (edges, weight), (old_edges, old_weight) in zip(parts, before, strict=True):
        assert torch.equal(edges, old_edges)
        assert torch.equal(weight, old_weight)


@pytest.mark.parametrize("share", [[1, 2], [1, -1, 1], [0, 0, 0], [1, float("nan"), 1]])
def test_shares_must_fit(share):
    with pytest.raises(ValueError, match="'share' must hold a number >= 0 for each of 3 graphs"):
        join_graphs([both_ways(part) for part in graphs()], share)


@pytest.mark.parametrize("given", [[], torch.zeros(2, 3, dtype=torch.long)])
def test_graphs_must_be_a_list(given):
    with pytest.raises(ValueError, match="'graphs' must be a list"):
        join_graphs(given)


def test_a_bad_graph_is_named():
    good = both_ways(graphs()[0])
    with pytest.raises(ValueError, match=r"graph 1 of 'graphs': 'edge_index' must be of shape"):
        join_graphs([good, (torch.zeros(3, 4, dtype=torch.long), None)])
