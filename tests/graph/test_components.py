import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components as scipy_components

from tg_crepe.graph.components import connected_components


def numbered_by_smallest_member(label):
    """The same partition, its parts numbered in order of appearance."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def oracle(edge_index, num_nodes):
    row, col = edge_index.numpy()
    row, col = row.astype(np.int32), col.astype(np.int32)  # SciPy before 1.12 takes no others
    matrix = scipy.sparse.coo_array((np.ones(len(row)), (row, col)), shape=(num_nodes, num_nodes))
    return numbered_by_smallest_member(scipy_components(matrix, directed=False)[1])


@given(num_nodes=st.integers(1, 60), share=st.floats(0, 1.5), seed=st.integers(0, 10_000))
def test_components_of_random_graphs_agree_with_scipy(num_nodes, share, seed):
    # About one edge for two nodes is where a random graph falls into parts of all sizes.
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, int(share * num_nodes)), generator=generator)
    expected = oracle(edge_index, num_nodes)
    np.testing.assert_array_equal(connected_components(edge_index, num_nodes).numpy(), expected)
    np.testing.assert_array_equal(connected_components(edge_index.flip(0), num_nodes).numpy(), expected)


def test_components_of_a_large_random_graph_agree_with_scipy():
    num_nodes = 20_000
    edge_index = torch.randint(num_nodes, (2, num_nodes // 2), generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(connected_components(edge_index, num_nodes).numpy(), oracle(edge_index, num_nodes))


@pytest.mark.parametrize("order", ["ascending", "shuffled", "zigzag"])
def test_a_long_path_is_one_component(order):
    num_nodes = 2_000
    path = torch.arange(num_nodes)
    if order == "shuffled":
        path = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    elif order == "zigzag":
        path = torch.stack([path[: num_nodes // 2], path[num_nodes // 2 :].flip(0)], dim=1).view(-1)
    edge_index = torch.stack([path[:-1], path[1:]])
    assert connected_components(edge_index, num_nodes).tolist() == [0] * num_nodes
    middle = num_nodes // 2
    cut = edge_index[:, torch.arange(num_nodes - 1) != middle]
    np.testing.assert_array_equal(connected_components(cut, num_nodes).numpy(), oracle(cut, num_nodes))
    assert connected_components(cut, num_nodes).unique().tolist() == [0, 1]


def test_without_edges_every_node_is_a_component():
    edge_index = torch.zeros(2, 0, dtype=torch.long)
    assert connected_components(edge_index, 5).tolist() == [0, 1, 2, 3, 4]
    assert connected_components(edge_index, 0).tolist() == []


def test_components_are_numbered_by_their_smallest_member():
    edge_index = torch.tensor([[5, 3, 1], [0, 4, 2]])
    assert connected_components(edge_index, 7).tolist() == [0, 1, 1, 2, 2, 0, 3]


def test_self_loops_and_repeats_join_nothing():
    edge_index = torch.tensor([[0, 2, 2, 2], [0, 1, 1, 2]])
    assert connected_components(edge_index, 4).tolist() == [0, 1, 1, 2]


def test_edges_are_not_modified():
    edge_index = torch.tensor([[5, 3, 1], [0, 4, 2]])
    before = edge_index.clone()
    connected_components(edge_index, 6)
    assert torch.equal(edge_index, before)


def test_components_without_compiled_code_are_the_same(monkeypatch):
    edge_index = torch.randint(500, (2, 300), generator=torch.Generator().manual_seed(1))
    expected = connected_components(edge_index, 500)
    monkeypatch.setattr("tg_crepe.graph.components.available", lambda name: False)
    assert torch.equal(connected_components(edge_index, 500), expected)
    np.testing.assert_array_equal(expected.numpy(), oracle(edge_index, 500))
