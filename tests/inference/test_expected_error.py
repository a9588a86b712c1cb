import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from tg_crepe.inference.expected_error import class_error, expect_doubt, expect_error, judge, label_worth, own_doubt
from tg_crepe.inference.held_out import HeldOut, deal_labels, leave_out
from tg_crepe.inference.task import ExpectedError, LabelTask

EQUAL = torch.full((2,), 0.5, dtype=torch.float64)


def make_task(counts=(5, 5, 5), seed: int = 0, num_nodes: int = 150) -> tuple[LabelTask, torch.Tensor]:
    graph, y = clusters(seed, num_nodes)
    rng = np.random.default_rng(seed)
    sign = torch.zeros(num_nodes, 3, dtype=torch.float64)
    for c, count in enumerate(counts):
        chosen = rng.choice(np.flatnonzero(y.numpy() == c), count, replace=False)
        sign[chosen] = 2 * torch.eye(3, dtype=torch.float64)[c] - 1
    return LabelTask(graph, sign, False, torch.arange(3), 3), y


def held_with(y: list[int], found: list[int], num_classes: int = 2) -> HeldOut:
    """Labels of classes ``y`` that are found as ``found``, surely; -1 is reached by no other."""
    prob = torch.eye(num_classes + 1, dtype=torch.float64)[:, :num_classes][torch.tensor(found)]
    share = torch.full((1, num_classes), 1 / num_classes, dtype=torch.float64)
    return HeldOut((0.1,), prob.unsqueeze(0), torch.tensor(y), share)


def check(found: ExpectedError, a: float, b: float) -> None:
    assert found.value == pytest.approx(a / (a + b))
    assert found.low == pytest.approx(beta(a, b).ppf(0.05), rel=1e-9)
    assert found.high == pytest.approx(beta(a, b).ppf(0.95), rel=1e-9)


def test_labels_left_out_are_a_quarter_of_a_label_beside_three_of_doubt():
    # Eight labels, equally many of both classes, two of them wrong: two labels' worth with a quarter wrong.
    held = held_with([0] * 4 + [1] * 4, [0, 0, 0, 1, 1, 1, 1, -1])
    check(expect_error(0.1, held, EQUAL), 0.5 + 2 * 0.25 + 0.3, 0.5 + 2 * 0.75 + 2.7)


def test_labels_count_by_the_volumes_of_their_classes():
    # Class 0 has three quarters of the nodes and two of six labels: 0.375 each, one wrong; 0.0625 for the others.
    held = held_with([0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    number = 0.25 * 1 / (2 * 0.375**2 + 4 * 0.0625**2)
    a, b = 0.5 + number * 0.375 + 3 * 0.2, 0.5 + number * 0.625 + 3 * 0.8
    check(expect_error(0.2, held, torch.tensor([0.75, 0.25], dtype=torch.float64)), a, b)


def test_volumes_decide_what_is_found():
    prob = torch.tensor([[[0.55, 0.45], [0.45, 0.55]]], dtype=torch.float64)
    held = HeldOut((0.1,), prob, torch.tensor([0, 1]), EQUAL.view(1, 2))
    check(expect_error(0.1, held, EQUAL), 0.5 + 0.3, 0.5 + 0.5 + 2.7)
    # The second label is found as class 0.
    wide = expect_error(0.1, held, torch.tensor([0.6, 0.4], dtype=torch.float64))
    number = 0.25 / (0.6**2 + 0.4**2)
    check(wide, 0.5 + number * 0.4 + 0.3, 0.5 + number * 0.6 + 2.7)


def test_without_labels_left_out_the_interval_is_wide():
    few = expect_error(0.2, None, EQUAL)
    check(few, 0.5 + 0.6, 0.5 + 2.4)
    assert few.high - few.low > 0.5
    many = expect_error(0.2, held_with([0, 1] * 100, [0, 1] * 80 + [1, 0] * 20), EQUAL)
    check(many, 0.5 + 50 * 0.2 + 0.6, 0.5 + 50 * 0.8 + 2.4)
    assert many.high - many.low < 0.2


@given(
    doubt=st.floats(0, 1),
    labels=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), max_size=30),
    volume=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
)
def test_interval_holds_the_value_whatever_the_labels_say(doubt, labels, volume):
    share = torch.tensor(volume, dtype=torch.float64) / sum(volume)
    held = held_with([y for y, _ in labels], [found for _, found in labels], 3) if labels else None
    found = expect_error(doubt, held, share)
    assert 0 <= found.low <= found.value <= found.high <= 1
    if held is not None:
        names = [2, 0, 1]
        back = torch.tensor([1, 2, 0])  # the new number of every class
        moved = HeldOut(held.rate, held.prob[:, :, names], back[held.y], held.found[:, names])
        other = expect_error(doubt, moved, share[names])
        assert (other.value, other.low, other.high) == pytest.approx((found.value, found.low, found.high), rel=1e-9)


def test_error_is_said_in_per_cent():
    assert str(ExpectedError(0.123, 0.05, 0.267)) == "12 % (5 to 27 %)"


def test_class_error_by_hand():
    # One of two and none of four: a quarter over the classes, with one wrong and one right label imagined.
    held = held_with([0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    assert class_error(held, 2) == pytest.approx((6 * 0.25 + 1) / 8)
    assert class_error(held_with([0, 0], [0, 1], 3), 3) == pytest.approx((2 * 0.5 + 1) / 4)  # classes never judged
    assert class_error(None, 2) == 0.25
    assert class_error(None, 10) == pytest.approx(0.45)


def test_doubt_of_calibrated_labels_is_expected_with_three_labels_and_a_quarter_of_those_left_out():
    few = expect_doubt(0.2, None)
    assert few.value == 0.2
    assert (few.low, few.high) == pytest.approx(beta(0.5 + 0.6, 0.5 + 2.4).ppf([0.05, 0.95]), rel=1e-9)
    many = expect_doubt(0.2, torch.ones(400, dtype=torch.float64))
    assert many.value == 0.2
    assert (many.low, many.high) == pytest.approx(beta(0.5 + 103 * 0.2, 0.5 + 103 * 0.8).ppf([0.05, 0.95]), rel=1e-9)
    # One label that is worth all others together counts as little more than one.
    uneven = torch.tensor([100.0] + [1.0] * 99, dtype=torch.float64)
    number = 3 + 0.25 * 199**2 / (100**2 + 99)
    low, high = beta(0.5 + number * 0.2, 0.5 + number * 0.8).ppf([0.05, 0.95])
    assert expect_doubt(0.2, uneven) == ExpectedError(0.2, pytest.approx(low), pytest.approx(high))


@given(doubt=st.floats(0, 1), number=st.integers(1, 1000))
def test_doubt_lies_in_its_interval(doubt, number):
    found = expect_doubt(doubt, torch.ones(number, dtype=torch.float64))
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_labels_are_worth_the_volume_of_their_class():
    y, volume = torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([0.75, 0.25], dtype=torch.float64)
    worth = label_worth(y, volume)
    assert worth.tolist() == pytest.approx([2.25, 2.25, 0.375, 0.375, 0.375, 0.375])
    # As many labels as their class has nodes are all worth the same.
    assert label_worth(y, torch.tensor([1.0, 2.0], dtype=torch.float64) / 3).tolist() == pytest.approx([1.0] * 6)


def test_own_doubt_is_over_unlabelled_nodes():
    task, y = make_task()
    prob = torch.rand(150, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = 1 - prob.numpy()[~task.labelled.numpy()].max(axis=1).mean()
    assert own_doubt(prob, task) == pytest.approx(expected)
    prob[task.labelled] = 100.0
    assert own_doubt(prob, task) == pytest.approx(expected)
    every = LabelTask(task.graph, 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1, False, torch.arange(3), 3)
    assert own_doubt(prob, every) == 0.0


@pytest.mark.parametrize("rate", [0.05, None])
@pytest.mark.parametrize("counts", [(5, 5, 5), (1, 1, 1), (3, 6, 9)])
def test_judgement_is_that_of_a_dense_diffusion(counts, rate, monkeypatch):
    monkeypatch.setattr("tg_crepe.inference.expected_error._TOL", 1e-12)
    task, _ = make_task(counts)
    found = judge(task, rate)
    x = 0.03 * np.sqrt(sum(counts) / 3) if rate is None else rate
    w = dense_adjacency(task.graph)
    d = w.sum(axis=1)
    v = np.linalg.inv(np.eye(150) - w / np.sqrt(np.outer(d, d)) / (1 + x)) @ task.sources.numpy() / np.sqrt(d)[:, None]
    volume = (np.array(counts) + 5) / (sum(counts) + 15)
    v = v * volume / (d @ v)
    prob = v / v.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.support, prob, atol=1e-9)
    doubt = 1 - prob[~task.labelled.numpy()].max(axis=1).mean()
    expected = expect_error(
        doubt, (None if counts == (1, 1, 1) else leave_out(task, [x], deal_labels(task, x))), torch.from_numpy(volume)
    )
    assert found.expected.value == pytest.approx(expected.value, rel=1e-6)
    assert ((None if counts == (1, 1, 1) else leave_out(task, [x], deal_labels(task, x))) is None) == (
        counts == (1, 1, 1)
    )


def test_intervals_hold_the_true_error_about_as_often_as_they_say():
    inside, expected, true = [], [], []
    for seed in range(20):
        task, y = make_task((10, 10, 10), seed, num_nodes=450)
        found = judge(task)
        wrong = float((found.support.argmax(dim=1) != y)[~task.labelled].double().mean())
        inside.append(found.expected.low <= wrong <= found.expected.high)
        expected.append(found.expected.value)
        true.append(wrong)
    assert np.mean(inside) >= 0.8
    assert np.mean(expected) == pytest.approx(np.mean(true), abs=0.05)
