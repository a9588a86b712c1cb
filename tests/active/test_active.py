from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph

from tg_crepe import LGC, CrepePropagation, GraphWarning
from tg_crepe.active import STRATEGIES, LabelLoop, error_curve, label_next
from tg_crepe.active.coverage import choose_covering
from tg_crepe.active.criteria import margin, ratio_change, uncertainty
from tg_crepe.energy.normaliser import get_normaliser


def random_prob(seed: int, num_nodes: int, multi_label: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    score = 2 * torch.randn(num_nodes, 3, generator=generator, dtype=torch.float64)
    return torch.sigmoid(score) if multi_label else torch.softmax(score, dim=1)


def both_ways(graph):
    return torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)


def test_uncertainty_and_margin_by_hand():
    prob = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    entropy = -np.sum(np.array([0.6, 0.3, 0.1]) * np.log([0.6, 0.3, 0.1])) / np.log(3)
    np.testing.assert_allclose(uncertainty(prob, False), [0, np.log(2) / np.log(3), 1, entropy], atol=1e-12)
    np.testing.assert_allclose(margin(prob, False), [0, 1, 1, 0.7], atol=1e-12)
    np.testing.assert_allclose(margin(prob, True), [0, 1, 2 / 3, 0.8], atol=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_ratio_change_is_the_expected_rise_of_the_energy(multi_label):
    graph, prob = random_graph(3), random_prob(3, 12, multi_label)
    w, p = dense_adjacency(graph), prob.numpy()
    degree = graph.degree
    volume = degree @ prob / degree.sum()
    size = get_normaliser("degree_quantile", volume)(degree.unsqueeze(1) * prob, degree)[0].numpy()

    def energy(i: int, row: np.ndarray) -> float:
        return float(np.sum(w[i] @ np.abs(row - p) / size))

    expected = []
    for i in range(12):
        if multi_label:
            outcomes = [(np.where(np.arange(3) == f, b, p[i]), f, b) for f in range(3) for b in (0, 1)]
            rise = [(p[i, f] if b else 1 - p[i, f]) * (energy(i, row) - energy(i, p[i])) for row, f, b in outcomes]
        else:
            rise = [p[i, c] * (energy(i, np.eye(3)[c]) - energy(i, p[i])) for c in range(3)]
        expected.append(sum(rise))
    np.testing.assert_allclose(ratio_change(prob, graph, multi_label), expected, rtol=1e-9)


def test_coverage_is_the_greedy_choice_of_the_largest_gain():
    graph = random_graph(5, num_nodes=14, density=0.15)
    value = uncertainty(random_prob(5, 14), False)
    candidate = torch.arange(14) != 3
    w = dense_adjacency(graph)
    s = w / w.max(axis=1)[None, :]  # how far the row covers the column
    np.fill_diagonal(s, 1)
    left, free, expected = value.numpy().copy(), candidate.numpy().copy(), []
    while free.any():
        best = int(np.where(free, s @ left, -1).argmax())
        expected.append(best)
        left *= 1 - s[best]
        free &= w[best] == 0
        free[best] = False
    assert choose_covering(value, graph, candidate, len(expected)).tolist() == expected
    chosen = choose_covering(value, graph, candidate, 13)
    assert sorted(chosen.tolist()) == [i for i in range(14) if i != 3]


def test_coverage_never_takes_two_of_one_neighbourhood_while_there_are_others():
    graph, _ = clusters(0)
    nodes = choose_covering(torch.ones(150), graph, torch.ones(150, dtype=torch.bool), 8)
    assert not dense_adjacency(graph)[np.ix_(nodes, nodes)].any()


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_labelled_nodes_are_never_suggested_and_the_answer_is_the_same_again(strategy, multi_label):
    graph, _ = clusters(1)
    prob, labelled = random_prob(1, 150, multi_label), torch.arange(150) < 100
    arguments = (prob, labelled, *both_ways(graph), 20, strategy, multi_label)
    nodes = label_next(*arguments)
    assert len(set(nodes.tolist())) == 20
    assert int(nodes.min()) >= 100
    assert torch.equal(nodes, label_next(*arguments))
    assert len(label_next(prob, labelled, *both_ways(graph), 80, strategy, multi_label)) == 50


def test_random_depends_on_the_seed():
    graph, _ = clusters(1)
    prob, labelled = random_prob(1, 150), torch.zeros(150, dtype=torch.bool)
    first, second = (label_next(prob, labelled, *both_ways(graph), 20, "random", seed=s) for s in (1, 2))
    assert not torch.equal(first, second)


def test_the_most_doubtful_come_first():
    graph, _ = clusters(2)
    prob, labelled = random_prob(2, 150), torch.zeros(150, dtype=torch.bool)
    for strategy, value in (("uncertainty", uncertainty(prob, False)), ("margin", margin(prob, False))):
        nodes = label_next(prob, labelled, *both_ways(graph), 150, strategy)
        assert (value[nodes].diff() <= 0).all()


def test_bad_arguments_are_named():
    graph, _ = clusters(0)
    prob, labelled = random_prob(0, 150), torch.zeros(150, dtype=torch.bool)
    for change, message in (
        ({"strategy": "guess"}, "'strategy' must be one of 'coverage'"),
        ({"n": 0}, "'n' must be an integer >= 1"),
        ({"prob": prob[:, 0]}, "'prob' must be of shape"),
        ({"prob": prob * 3}, r"'prob' must lie in \[0, 1\]"),
        ({"labelled": labelled[:5]}, r"'labelled' must be of shape \[num_nodes\] = \[150\]"),
        ({"labelled": torch.tensor([150])}, "'labelled' must hold node indices"),
    ):
        arguments = {"prob": prob, "labelled": labelled, "edge_index": both_ways(graph)[0], **change}
        with pytest.raises(ValueError, match=message):
            label_next(**arguments)


@pytest.mark.parametrize("warm_start", [False, True])
def test_the_loop_asks_answers_and_propagates(warm_start):
    graph, truth = clusters(3)
    y, mask = torch.full((150,), -1), torch.zeros(150, dtype=torch.bool)
    for c in range(3):
        first = int((truth == c).nonzero()[0])
        y[first], mask[first] = c, True
    before = (y.clone(), mask.clone())
    loop = LabelLoop(y, *_graph_first(graph, mask), warm_start=warm_start)
    for _ in range(3):
        nodes = loop.suggest(5)
        result = loop.answer(nodes, truth[nodes])
        assert torch.equal(result.label[nodes], truth[nodes])
    assert int(loop.mask.sum()) == 18
    assert float((loop.result.label != truth).double().mean()) < 0.2
    assert torch.equal(y, before[0])
    assert torch.equal(mask, before[1])
    assert repr(loop) == "LabelLoop(18 labelled, strategy='coverage')"


def _graph_first(graph, mask):
    edge_index, edge_weight = both_ways(graph)
    return edge_index, mask, edge_weight


def test_a_class_that_appears_in_an_answer_is_learnt():
    graph, truth = clusters(3)
    mask = torch.zeros(150, dtype=torch.bool)
    mask[[int((truth == c).nonzero()[0]) for c in (0, 1)]] = True
    loop = LabelLoop(truth, *_graph_first(graph, mask))
    assert loop.result.prob.size(1) == 2
    new = (truth == 2).nonzero().view(-1)[:4]
    loop.answer(new, truth[new])
    assert loop.result.prob.size(1) == 3
    assert (loop.result.label == 2).sum() > 4


def test_the_loop_takes_findings():
    graph, truth = clusters(4)
    findings = torch.nn.functional.one_hot(truth, 3)
    mask = torch.zeros(150, dtype=torch.bool)
    mask[::10] = True
    loop = LabelLoop(findings, *_graph_first(graph, mask), model=LGC())
    nodes = loop.suggest(5)
    loop.answer(nodes, findings[nodes])
    assert loop.multi_label
    assert torch.equal(loop.result.label[nodes], findings[nodes])


def test_the_curve_counts_labels_and_sees_no_other_truth():
    graph, truth = clusters(5)
    mask = torch.zeros(150, dtype=torch.bool)
    mask[[int((truth == c).nonzero()[0]) for c in range(3)]] = True
    points = error_curve(truth, *_graph_first(graph, mask), rounds=3, batch=4, model=LGC())
    assert [labels for labels, _ in points] == [3, 7, 11, 15]
    by_hand = LGC().propagate(truth, *_graph_first(graph, mask))
    assert points[0][1] == pytest.approx(100 * float((by_hand.label != truth)[~mask].double().mean()))
    last = error_curve(truth, *_graph_first(graph, mask), rounds=99, batch=50, model=LGC())[-1]
    assert last == (150, 0.0)


def test_the_default_beats_chance_on_digits():
    from tg_crepe import knn_graph

    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_digits(return_X_y=True)
    truth = torch.from_numpy(y)
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), k=10, metric="euclidean")
    area = {}
    for strategy in ("coverage", "random"):
        curves = []
        for seed in (100, 101):
            rng = np.random.default_rng(seed)
            mask = torch.zeros(len(y), dtype=torch.bool)
            mask[[int(rng.choice(np.flatnonzero(y == c))) for c in range(10)]] = True
            curve = error_curve(truth, edge_index, mask, edge_weight, rounds=2, strategy=strategy, seed=seed)
            curves.append([error for _, error in curve])
        area[strategy] = np.mean(curves)
    assert area["coverage"] < area["random"] - 1


@pytest.mark.filterwarnings("default::tg_crepe.GraphWarning")
def test_components_that_no_label_reaches_are_asked_about():
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5], [1, 0, 2, 1, 4, 3, 5, 4]])
    y, mask = torch.tensor([0, 1, 0, 0, 0, 0]), torch.tensor([True, True, False, False, False, False])
    with pytest.warns(GraphWarning, match="3 node"):
        result = CrepePropagation().propagate(y, edge_index, mask)
    assert int(label_next(result.prob, mask, edge_index, n=1)) == 4  # in the middle of the three


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_graph_without_an_edge_has_nodes_to_label_too(strategy):
    labelled = torch.tensor([True, False, False, False])
    nodes = label_next(torch.full((4, 2), 0.5), labelled, torch.empty(2, 0, dtype=torch.long), n=2, strategy=strategy)
    assert len(set(nodes.tolist()) - {0}) == 2


def test_an_answer_that_is_refused_leaves_the_loop_as_it_was():
    y, graph = torch.tensor([0, 1, -1, -1]), torch.tensor([[0, 1, 2, 2, 3, 3], [2, 3, 3, 0, 1, 2]])
    loop = LabelLoop(y, graph, y >= 0, model=LGC())
    before = loop.result
    with pytest.raises(ValueError, match="'y' must be >= 0"):
        loop.answer(torch.tensor([2]), torch.tensor([-3]))
    assert loop.result is before
    assert loop.y.tolist() == y.tolist()
    assert loop.mask.tolist() == (y >= 0).tolist()
    assert len(loop.answer(torch.tensor([2]), torch.tensor([0])).label) == 4
