import pytest
import torch

from tg_crepe.active import label_next
from tg_crepe.active.criteria import uncertainty
from tg_crepe.active.variance import VarianceReduction, doubt_value
from tg_crepe.graph import canonical_graph, knn_graph, prepare


@pytest.fixture(scope="module")
def rule():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=generator) + 4 * torch.eye(3)[torch.arange(60) % 3]
    graph, _ = canonical_graph(*knn_graph(x, 6, "euclidean"), 60)
    return VarianceReduction.of_graph(graph, modes=12)


def dense_covariance(rule, labelled):
    """The covariance of all nodes given noisy values at some: the textbook's formula."""
    vectors = rule.vectors
    prior = vectors @ rule._prior @ vectors.T
    known = torch.tensor(labelled, dtype=torch.long)
    if not labelled:
        return prior
    inner = prior[known][:, known] + 0.01 * torch.eye(len(labelled), dtype=torch.float64)
    return prior - prior[:, known] @ torch.linalg.solve(inner, prior[known])


def test_the_choice_reduces_the_dense_weighted_variance_most(rule):
    value = torch.rand(60, generator=torch.Generator().manual_seed(1)).double()
    candidate = torch.ones(60, dtype=torch.bool)
    # Without the modes of the components, whose variance is as good as infinite and has no digits left.
    rule = VarianceReduction(torch.linspace(0.01, 0.5, 12), rule.vectors)
    labelled = [3, 17]
    candidate[labelled] = False
    (found,) = rule.choose(value, labelled, candidate, 1).tolist()
    before = value @ dense_covariance(rule, labelled).diagonal()
    gain = torch.stack([before - value @ dense_covariance(rule, [*labelled, node]).diagonal() for node in range(60)])
    assert found == int((gain * value).masked_fill(~candidate, -1).argmax())


def test_several_nodes_are_chosen_as_if_each_was_labelled_before_the_next(rule):
    value, candidate = torch.ones(60).double(), torch.ones(60, dtype=torch.bool)
    at_once = rule.choose(value, [], candidate, 6).tolist()
    known: list[int] = []
    for _ in range(6):
        free = candidate.clone()
        free[known] = False
        known += rule.choose(value, known, free, 1).tolist()
    assert at_once == known
    assert len(set(at_once)) == 6


def test_the_first_choices_are_in_different_clusters(rule):
    chosen = rule.choose(torch.ones(60).double(), [], torch.ones(60, dtype=torch.bool), 3)
    assert sorted((chosen % 3).tolist()) == [0, 1, 2]


def test_with_no_label_and_with_equal_doubt_the_value_is_that_of_v_optimality():
    everywhere = torch.ones(7, dtype=torch.bool)
    assert doubt_value(torch.rand(7), everywhere, torch.tensor([], dtype=torch.long)).unique().tolist() == [1.0]
    assert len(doubt_value(torch.full((7,), 0.3), everywhere, torch.tensor([4, 1])).unique()) == 1


def test_doubt_counts_more_the_less_of_it_there_is_and_the_more_classes_were_seen_again():
    everywhere = torch.ones(100, dtype=torch.bool)

    def ratio(doubtful, counts):
        value = doubt_value((torch.arange(100) < doubtful).double(), everywhere, torch.tensor(counts))
        return float(value[0] / value[-1])

    assert ratio(90, [100, 100]) < 2 < 20 < ratio(2, [100, 100])
    ratios = [ratio(2, counts) for counts in ([1, 1, 1], [3, 1, 1], [3, 3, 1], [10, 10, 10])]
    assert ratios == sorted(ratios)
    assert ratios[0] == 1


def test_nodes_with_a_label_are_in_no_mean_and_count_nothing():
    doubt, candidate = torch.tensor([0.5, 0.1, 0.9]), torch.tensor([True, False, True])
    value = doubt_value(doubt, candidate, torch.tensor([2, 3]))
    first, last = (1 / 6 + 5 / 6 * one for one in (0.5, 0.9))
    mean = (first + last) / 2
    assert value.tolist() == pytest.approx([(1 - mean) * first + mean**2, 0.0, (1 - mean) * last + mean**2])
    assert value.sum() == pytest.approx(2 * mean), "the value is shared out, none is added"


def test_a_node_without_an_edge_is_never_chosen_before_the_others():
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 0, 4, 5]])
    graph, _ = canonical_graph(edge_index, None, 7)
    rule = VarianceReduction.of_graph(graph, modes=4)
    chosen = rule.choose(torch.ones(7).double(), [], torch.ones(7, dtype=torch.bool), 7).tolist()
    assert sorted(chosen) == list(range(7))
    assert chosen[-1] == 6


def test_the_strategy_of_label_next_is_this_rule_and_a_prepared_graph_keeps_its_modes():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(80, 4, generator=generator)
    graph = prepare(*knn_graph(x, 6, "euclidean"), 80)
    prob = torch.rand(80, 3, generator=generator).softmax(dim=1)
    labelled = torch.arange(80) < 5
    found = label_next(prob, labelled, graph, n=4, strategy="variance")
    value = doubt_value(uncertainty(prob, False), ~labelled, prob[:5].argmax(dim=1).bincount())
    assert VarianceReduction.of_graph(graph) is VarianceReduction.of_graph(graph)
    assert torch.equal(found, VarianceReduction.of_graph(graph).choose(value, range(5), ~labelled, 4))
