import numpy as np
import pytest
import torch
from helpers import clusters

from tg_crepe import choose_shares
from tg_crepe.inference.shares import _candidates


def noise_graph(seed: int, num_nodes: int = 150):
    return torch.randint(0, num_nodes, (2, 6 * num_nodes), generator=torch.Generator().manual_seed(seed)), None


def good_graph(seed: int = 0, num_nodes: int = 150):
    graph, y = clusters(seed, num_nodes)
    return (graph.edge_index, graph.edge_weight), y


def mask_of(y, per_class: int):
    mask = torch.zeros_like(y, dtype=torch.bool)
    for c in range(3):
        mask[(y == c).nonzero().view(-1)[:per_class]] = True
    return mask


def test_with_many_labels_a_noise_graph_has_hardly_a_share():
    good, y = good_graph(num_nodes=1200)
    share = choose_shares([good, noise_graph(0, 1200)], y, mask_of(y, 40))
    assert float(share[1]) < 0.05
    assert float(share.sum()) == pytest.approx(1)


def test_of_three_graphs_the_noise_has_the_least():
    good, y = good_graph(num_nodes=1200)
    share = choose_shares([good, noise_graph(0, 1200), good], y, mask_of(y, 40))
    assert float(share[1]) < 0.15
    assert float(share[0]) == pytest.approx(float(share[2]))


@pytest.mark.parametrize("per_class", [1, 2])
def test_few_labels_change_little_or_nothing(per_class):
    good, y = good_graph()
    share = choose_shares([good, noise_graph(1)], y, mask_of(y, per_class))
    assert abs(float(share[0]) - 0.5) <= (0 if per_class == 1 else 0.15)


def test_more_labels_decide_more():
    good, y = good_graph(num_nodes=1200)
    graphs = [good, noise_graph(0, 1200)]
    share = [float(choose_shares(graphs, y, mask_of(y, count))[0]) for count in (1, 5, 15, 40)]
    assert share == sorted(share)
    assert share[0] == 0.5


def test_a_graph_twice_has_equal_shares():
    good, y = good_graph()
    share = choose_shares([good, good], y, mask_of(y, 20))
    torch.testing.assert_close(share, torch.full((2,), 0.5, dtype=torch.float64))


def test_units_order_and_unknown_labels_do_not_matter():
    (edges, weight), y = good_graph()
    noise, mask = noise_graph(1), mask_of(y, 20)
    expected = choose_shares([(edges, weight), noise], y, mask)
    torch.testing.assert_close(choose_shares([(edges, 1e5 * weight), noise], y, mask), expected)
    torch.testing.assert_close(choose_shares([noise, (edges, weight)], y, mask).flip(0), expected)
    poisoned = torch.where(mask, y, 2 - y)
    assert torch.equal(choose_shares([(edges, weight), noise], poisoned, mask), expected)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    place = torch.empty(150, dtype=torch.long).index_put_((order,), torch.arange(150))
    moved = [(place[edges], weight), (place[noise[0]], None)]
    torch.testing.assert_close(choose_shares(moved, y[order], mask[order]), expected)


def test_numpy_labels_give_the_same_and_inputs_stay():
    good, y = good_graph()
    mask, graphs = mask_of(y, 10), [good, noise_graph(1)]
    before = y.clone()
    found = choose_shares(graphs, y.numpy(), mask.numpy())
    assert torch.equal(found, choose_shares(graphs, y, mask))
    assert torch.equal(y, before)


def test_isolated_nodes_and_islands_are_no_obstacle():
    (edges, weight), y = good_graph()
    y, mask = torch.cat([y, torch.tensor([0, 1, 2])]), torch.cat([mask_of(y, 20), torch.tensor([True, False, False])])
    island = torch.tensor([[151], [152]])
    share = choose_shares([(edges, weight), (island, None)], y, mask)
    assert float(share.sum()) == pytest.approx(1)
    assert bool((share > 0).all())


def test_one_graph_has_everything_and_labels_on_isolated_nodes_decide_nothing():
    good, y = good_graph()
    assert choose_shares([good], y, mask_of(y, 5)).tolist() == [1.0]
    alone = torch.tensor([[0], [1]])
    assert choose_shares([(alone, None), (alone, None)], torch.tensor([-1, -1, 0, 0, 1])).tolist() == [0.5, 0.5]


def test_findings_are_refused():
    good, y = good_graph()
    with pytest.raises(ValueError, match="'y' must hold one class per node"):
        choose_shares([good, good], torch.nn.functional.one_hot(y, 3), mask_of(y, 5))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_candidates_are_shares_and_equal_in_the_mean(count):
    share, prior = _candidates(count)
    np.testing.assert_allclose(share.sum(dim=1), 1)
    np.testing.assert_allclose(share[0], 1 / count)
    np.testing.assert_allclose(prior @ share / prior.sum(), np.full(count, 1 / count), atol=1e-15)
    assert float(share.min()) > 0
