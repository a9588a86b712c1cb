import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency

from tg_crepe import LGC, CrepePropagation, Harmonic


def bandwidth(edge_index: torch.Tensor) -> int:
    return int((edge_index[0] - edge_index[1]).abs().max())


def test_order_brings_neighbours_together(monkeypatch):
    monkeypatch.setattr("tg_crepe.graph.canonical._WORTHWHILE", 1)
    graph, _ = clusters(0)
    order = graph.local_order()
    assert sorted(order.tolist()) == list(range(150))
    assert bandwidth(graph.reorder(order).edge_index) < 0.7 * bandwidth(graph.edge_index)


def test_small_graphs_and_other_devices_keep_their_order():
    graph, _ = clusters(0)
    assert graph.local_order() is None
    assert type(graph)(graph.edge_index.to("meta"), graph.edge_weight.to("meta"), 150).local_order() is None


def test_reordered_graph_is_the_same_graph():
    graph, _ = clusters(0)
    _ = graph.degree, graph.component
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    moved = graph.reorder(order)
    expected = dense_adjacency(graph)[np.ix_(order.numpy(), order.numpy())]
    np.testing.assert_array_equal(dense_adjacency(moved), expected)
    np.testing.assert_array_equal(moved.adjacency.to_dense().numpy(), expected)
    assert bool((moved.edge_index[0] < moved.edge_index[1]).all())
    torch.testing.assert_close(moved.degree, torch.from_numpy(expected.sum(axis=1)))


@pytest.mark.parametrize("model", [CrepePropagation(), LGC(), Harmonic()], ids=lambda m: type(m).__name__)
def test_order_is_undone_in_the_result(model, monkeypatch):
    graph, y = clusters(0)
    mask = torch.arange(150) % 10 == 0
    plain = model.propagate(y, graph.adjacency, mask)
    monkeypatch.setattr("tg_crepe.graph.canonical._WORTHWHILE", 1)
    ordered = model.propagate(y, graph.adjacency, mask)
    assert torch.equal(ordered.label, plain.label)
    torch.testing.assert_close(ordered.u, plain.u, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(ordered.prob, plain.prob, atol=1e-8, rtol=0)
