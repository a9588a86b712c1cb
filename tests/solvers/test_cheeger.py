import pytest
import torch
from helpers import dense_adjacency, moons
from sklearn.datasets import make_moons

from tg_crepe import GraphWarning, cheeger_partition, knn_graph
from tg_crepe.energy.dirichlet import cut_ratio


@pytest.mark.parametrize("normaliser", ["l1", "median", "degree_median"])
def test_splits_two_moons_without_any_label(normaliser):
    for seed in (100, 101):
        x, y = make_moons(400, noise=0.08, random_state=seed)
        edge_index, edge_weight = knn_graph(torch.from_numpy(x), 10, metric="euclidean")
        result = cheeger_partition(edge_index, edge_weight, normaliser=normaliser)
        wrong = (result.partition != torch.from_numpy(y).bool()).double().mean()
        assert min(float(wrong), 1 - float(wrong)) < 0.01
        assert result.status == "converged"
        assert bool((result.trace["ratio"].diff(dim=0) <= 1e-12).all())


def test_ratio_is_the_cut_over_the_smaller_volume():
    graph, _ = moons(0, num_nodes=100)
    result = cheeger_partition(graph.adjacency, normaliser="degree_median")
    w, side = dense_adjacency(graph), result.partition.numpy()
    cut = w[side][:, ~side].sum()
    assert result.ratio == pytest.approx(cut / min(w[side].sum(), w[~side].sum()))
    # A cut of this ratio is what the relaxed flow converges to: its own ratio is that of the partition.
    assert result.ratio == pytest.approx(float(result.trace["ratio"][-1]), rel=0.05)


def test_two_cliques_joined_by_an_edge():
    edges = [(a + s, b + s) for s in (0, 5) for a in range(5) for b in range(a)] + [(0, 5)]
    edge_index = torch.tensor([*edges, *[(b, a) for a, b in edges]]).t()
    result = cheeger_partition(edge_index)
    assert len({bool(s) for s in result.partition[:5]}) == 1
    assert bool((result.partition[:5] != result.partition[5:]).all())
    assert result.ratio == pytest.approx(1 / 21)


def test_disconnected_graph_is_cut_between_components_and_isolated_nodes_are_counted():
    edge_index = torch.tensor([[0, 1, 2, 1, 2, 0, 3, 4, 5, 4, 5, 3], [1, 2, 0, 0, 1, 2, 4, 5, 3, 3, 4, 5]])
    with pytest.warns(GraphWarning, match="2 isolated node"):
        result = cheeger_partition(edge_index, num_nodes=8)
    assert result.ratio == 0
    assert bool((result.partition[:3] != result.partition[3:6]).all())
    assert result.u[6:].tolist() == [0, 0]


def test_cut_ratio_of_a_whole_class_is_zero():
    graph, _ = moons(0, num_nodes=50)
    assert cut_ratio(torch.zeros(50, dtype=torch.long), graph, 2).tolist() == [0, 0]


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="'edge_index' must hold at least one edge"):
        cheeger_partition(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    with pytest.raises(ValueError, match="'normaliser' must be one of"):
        cheeger_partition(torch.tensor([[0, 1], [1, 0]]), normaliser="best")
