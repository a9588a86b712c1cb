import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import disjoint

from tg_crepe.graph.sparse import SharedMatrix
from tg_crepe.inference.held_out import FOLDS, HeldOut, _deal, deal_labels, judge_parts, leave_out
from tg_crepe.inference.task import LabelTask
from tg_crepe.solvers.resolvent import loose_resolvent, loose_resolvents, resolvent


def make_task(counts=(7, 4, 12), seed: int = 0, num_nodes: int = 150) -> tuple[LabelTask, torch.Tensor]:
    graph, y = clusters(seed, num_nodes)
    rng = np.random.default_rng(seed)
    sign = torch.zeros(num_nodes, len(counts), dtype=torch.float64)
    for c, count in enumerate(counts):
        chosen = rng.choice(np.flatnonzero(y.numpy() == c), count, replace=False)
        sign[chosen] = -1
        sign[chosen, c] = 1
    return LabelTask(graph, sign, False, torch.arange(len(counts)), len(counts)), y


def _normalised(task: LabelTask) -> np.ndarray:
    w = dense_adjacency(task.graph)
    root = np.sqrt(w.sum(axis=1))
    return w / root[:, None] / root[None]


def _dense_parts(task: LabelTask, rate: float) -> np.ndarray:
    """Labels dealt by the evidence that a dense diffusion gives them."""
    evidence = np.linalg.inv(np.eye(task.graph.num_nodes) - _normalised(task) / (1 + rate)) @ task.sources.numpy()
    part = np.full(task.graph.num_nodes, -1)
    for c in range(task.num_classes):
        members = np.flatnonzero(task.y.numpy() == c)
        if len(members) > 1:
            part[members[np.argsort(evidence[members, c])]] = np.arange(len(members)) % 5
    return part


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-9])
def test_polynomial_is_as_near_to_the_resolvent_as_asked(alpha, tol):
    task, _ = make_task()
    source = task.sources
    found, exact = loose_resolvent(task.graph, source, alpha, tol), resolvent(task.graph, source, alpha, 1e-13).x
    residual = np.eye(150) - alpha * _normalised(task)
    assert float((found - exact).norm()) <= 2 * tol * float(exact.norm())
    assert np.linalg.norm(residual @ (found - exact).numpy()) <= tol * float(source.norm())


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-9])
def test_several_resolvents_share_their_products_and_are_those_of_one_each(tol, monkeypatch):
    task, _ = make_task()
    alphas, products = [0.3, 0.9, 0.99], []
    expected = [loose_resolvent(task.graph, task.sources, alpha, tol) for alpha in alphas]
    addmm = SharedMatrix.addmm
    monkeypatch.setattr(SharedMatrix, "addmm", lambda *given, **options: products.append(1) or addmm(*given, **options))
    for one, other in zip(loose_resolvents(task.graph, task.sources, alphas, tol), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    shared = len(products)
    loose_resolvent(task.graph, task.sources, 0.99, tol)
    assert shared + 1 == len(products) - shared  # the first is a product without a sum


@pytest.mark.parametrize("counts", [(7, 4, 12), (1, 6, 6), (2, 1, 1), (20, 20, 20)])
def test_labels_left_out_get_what_dense_diffusions_of_the_others_say(counts, monkeypatch):
    monkeypatch.setattr("tg_crepe.inference.held_out._TOL", 1e-12)
    task, _ = make_task(counts)
    rates = (0.02, 0.3)
    found = leave_out(task, rates, deal_labels(task, 0.3))
    part, source = _dense_parts(task, 0.3), task.sources.numpy()
    judged, free = part >= 0, ~task.labelled.numpy()
    degree = dense_adjacency(task.graph).sum(axis=1)
    assert found.rate == rates
    assert np.array_equal(found.y, task.y.numpy()[judged])
    for k, rate in enumerate(rates):
        inverse = np.linalg.inv(np.eye(150) - _normalised(task) / (1 + rate))
        soft, share = np.zeros((150, 3)), np.zeros(3)
        for number in np.unique(part[judged]):
            left = part == number
            v = inverse @ (source * ~left[:, None]) / np.sqrt(degree)[:, None]
            mass = degree @ v
            v = v / np.where(mass > 0, mass, 1)
            prob = v / v.sum(axis=1, keepdims=True)
            soft[left] = prob[left]
            share += left.sum() / judged.sum() * np.bincount(prob[free].argmax(axis=1), minlength=3) / free.sum()
        np.testing.assert_allclose(found.prob[k], soft[judged], atol=1e-9)
        np.testing.assert_allclose(found.found[k], share, atol=1e-12)


@given(seed=st.integers(0, 10_000))
def test_order_of_nodes_and_names_of_classes_do_not_matter(seed):
    task, _ = make_task(seed=seed % 5)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(150))
    names = torch.from_numpy(np.random.default_rng(seed).permutation(3))
    moved = LabelTask(task.graph.reorder(order), task.sign[order][:, names], False, names, 3)
    evidence = loose_resolvent(task.graph, task.sources, 0.9, 1e-3)
    assert torch.equal(_deal(moved, evidence[order][:, names], False), _deal(task, evidence, False)[order])
    one, other = (leave_out(t, [0.05, 0.2], deal_labels(t, 0.2)) for t in (task, moved))
    old = order[
        _deal(moved, evidence[order][:, names], False) >= 0
    ]  # the nodes that the moved task judges, in its order
    place = torch.full((150,), -1)
    place[(_deal(task, evidence, False) >= 0).nonzero().view(-1)] = torch.arange(one.y.numel())
    assert torch.equal(names[other.y], one.y[place[old]])
    torch.testing.assert_close(other.prob, one.prob[:, place[old]][:, :, names], atol=1e-10, rtol=0)
    torch.testing.assert_close(other.found, one.found[:, names], atol=1e-12, rtol=0)


def test_labels_are_dealt_round_and_round_by_their_evidence():
    task, _ = make_task((7, 4, 12))
    evidence = torch.rand(150, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    part = _deal(task, evidence, False)
    assert torch.equal(part >= 0, task.labelled)
    for c, count in enumerate((7, 4, 12)):
        members = (task.y == c).nonzero().view(-1)
        dealt = part[members[evidence[members, c].argsort()]]
        assert dealt.tolist() == [k % FOLDS for k in range(count)]


def test_labels_with_equal_evidence_are_dealt_too():
    task, _ = make_task((5, 4, 6))
    part = _deal(task, torch.ones_like(task.sign), False)
    assert [sorted(part[task.y == c].tolist()) for c in range(3)] == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3],
        [0, 0, 1, 2, 3, 4],
    ]


def test_a_class_with_one_label_is_never_judged_and_always_known():
    task, _ = make_task((1, 6, 6))
    held = leave_out(task, [0.05], deal_labels(task, 0.05))
    assert torch.bincount(held.y, minlength=3).tolist() == [0, 6, 6]
    assert bool((held.prob[0, :, 0] > 0).all())
    assert float(held.found[0, 0]) > 0.1


def test_nothing_can_be_left_out_of_one_label_per_class_or_seen_without_unlabelled_nodes():
    assert deal_labels(make_task((1, 1, 1))[0], 0.05) is None
    task, _ = make_task((2, 1, 1))
    assert leave_out(task, [0.05], deal_labels(task, 0.05)).y.tolist() == [0, 0]
    task, y = make_task()
    every = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    assert deal_labels(LabelTask(task.graph, every, False, torch.arange(3), 3), 0.05) is None


def test_opinions_are_asked_of_labels_that_they_do_not_know():
    task, _ = make_task((7, 4, 12))
    part, asked = deal_labels(task, 0.05), []

    def opinions(rest, left):
        asked.append(rest)
        assert torch.equal(left, task.labelled & ~rest.labelled)
        return torch.stack([rest.sign, torch.arange(150.0).view(-1, 1).expand(150, 3)])[:, left]

    found, y = judge_parts(task, part, opinions)
    assert len(asked) == FOLDS
    assert not bool(found[0].any())  # a label that is left out is unknown
    node = found[1, :, 0].long()
    assert sorted(node.tolist()) == task.labelled.nonzero().view(-1).tolist()
    assert torch.equal(y, task.y[node])
    for rest, number in zip(asked, range(FOLDS), strict=True):
        assert torch.equal(rest.labelled, task.labelled & (part != number))
        assert torch.equal(rest.sign[rest.labelled], task.sign[rest.labelled])


def test_a_hundred_labels_are_judged_and_hardly_more():
    graph, y = clusters(0, 900)
    sign = torch.zeros(900, 3, dtype=torch.float64)
    sign[:300] = 2.0 * torch.nn.functional.one_hot(y[:300], 3) - 1
    task = LabelTask(graph, sign, False, torch.arange(3), 3)
    _, judged = judge_parts(task, deal_labels(task, 0.05), lambda rest, left: rest.sign[left].unsqueeze(0))
    assert 100 <= judged.numel() < 130  # two parts of five


def test_a_label_that_no_other_reaches_has_zero_rows_and_is_no_hit():
    task, _ = make_task()
    graph = disjoint([task.graph, clusters(7, 40)[0]])
    sign = torch.cat([task.sign, torch.zeros(40, 3, dtype=torch.float64)])
    sign[160] = torch.tensor([1.0, -1, -1])  # the only label of its part
    task = LabelTask(graph, sign, False, torch.arange(3), 3)
    held = leave_out(task, [0.05, 0.3], deal_labels(task, 0.3))
    alone = held.y.numel() - 1
    assert int(held.y[alone]) == 0
    assert torch.equal(held.prob[:, alone], torch.zeros(2, 3, dtype=torch.float64))
    assert not bool(held.hits()[:, alone].any())
    assert not bool(held.hits(torch.tensor([1.0, 0.1, 0.1]))[:, alone].any())
    torch.testing.assert_close(held.prob[:, :alone].sum(dim=2), torch.ones(2, alone, dtype=torch.float64))
    torch.testing.assert_close(held.found.sum(dim=1), torch.ones(2, dtype=torch.float64))


def example() -> HeldOut:
    prob = torch.tensor(
        [[[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.0, 0.0, 0.0]], [[0.2, 0.6, 0.2], [0.1, 0.4, 0.5], [0.8, 0.1, 0.1]]]
    ).double()
    found = torch.tensor([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4]]).double()
    return HeldOut((0.01, 0.1), prob, torch.tensor([0, 2, 0]), found)


def test_hits_by_hand():
    assert example().hits().tolist() == [[True, False, False], [False, True, True]]
    assert example().hits(torch.tensor([0.2, 0.2, 0.6])).tolist() == [[False, True, False], [False, True, True]]
    assert example().hits(torch.tensor([0.8, 0.1, 0.1])).tolist() == [[True, False, False], [True, False, True]]


def test_mixed_rates_by_hand():
    mixed = example().mixed(torch.tensor([0.75, 0.25]).double())
    assert mixed.rate == pytest.approx((0.01 * 10**0.25,))
    expected = [[[0.425, 0.375, 0.2], [0.1, 0.475, 0.425], [0.2, 0.025, 0.025]]]
    np.testing.assert_allclose(mixed.prob, expected, atol=1e-12)
    np.testing.assert_allclose(mixed.found, [[0.45, 0.3, 0.25]], atol=1e-12)
    assert torch.equal(mixed.y, example().y)
    assert mixed.hits().tolist() == [[True, False, True]]


@pytest.mark.parametrize("k", [0, 1])
def test_all_weight_on_one_rate_is_that_rate(k):
    mixed = example().mixed(torch.eye(2, dtype=torch.float64)[k])
    assert mixed.rate == pytest.approx((example().rate[k],))
    assert torch.equal(mixed.hits()[0], example().hits()[k])
    assert torch.equal(mixed.found[0], example().found[k])
