import math

import numpy as np
import pytest
import torch
from helpers import clusters
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import dense_laplacian

from tg_crepe.inference.held_out import HeldOut
from tg_crepe.inference.rate import RATE_FACTORS, bounded_rate, raised_by, screening_rate, weigh_rates
from tg_crepe.inference.task import LabelTask

PRIOR = np.array([8, 4, 2, 1]) / 15


def make_task(count: int, seed: int = 0, multi_label: bool = False) -> LabelTask:
    """Three clusters with as many labels each."""
    graph, y = clusters(seed)
    rng = np.random.default_rng(seed)
    sign = torch.zeros(graph.num_nodes, 3, dtype=torch.float64)
    for c in range(3):
        sign[rng.choice(np.flatnonzero(y == c), count, replace=False)] = 2 * torch.eye(3, dtype=torch.float64)[c] - 1
    return LabelTask(graph, sign, multi_label, torch.arange(3), 3)


def held_with_hits(hits: np.ndarray) -> HeldOut:
    """Labels of class 0 that each rate finds or does not, of shape [num_rates, num_labels]."""
    prob = torch.where(torch.as_tensor(hits, dtype=torch.bool).unsqueeze(-1), 0.9, 0.1).double()
    prob = torch.cat([prob, 1 - prob], dim=-1)
    y = torch.zeros(hits.shape[1], dtype=torch.long)
    return HeldOut(RATE_FACTORS, prob, y, torch.full((len(hits), 2), 0.5).double())


@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_rate_is_the_eigenvalue_times_the_root_of_the_labels_per_class(seed, count):
    task = make_task(count, seed)
    eigenvalue = np.linalg.eigvalsh(dense_laplacian(task.graph))[2]
    assert screening_rate(task) == pytest.approx(eigenvalue * math.sqrt(count), rel=0.05)
    assert screening_rate(task, 2.5) == pytest.approx(2.5 * screening_rate(task))


def test_a_finding_is_two_classes():
    task = make_task(4, multi_label=True)
    eigenvalue = np.linalg.eigvalsh(dense_laplacian(task.graph))[1]
    assert screening_rate(task) == pytest.approx(eigenvalue * math.sqrt(12 / 2), rel=0.05)


def test_order_of_nodes_and_classes_leaves_the_rate():
    task = make_task(4)
    order = torch.from_numpy(np.random.default_rng(0).permutation(task.graph.num_nodes))
    names = torch.tensor([2, 0, 1])
    moved = LabelTask(task.graph.reorder(order), task.sign[order][:, names], False, names, 3)
    assert screening_rate(moved) == screening_rate(task)


@given(rate=st.floats(1e-6, 1e6), largest=st.floats(1e-3, 1e3))
def test_bounded_rate_is_half_of_the_harmonic_mean(rate, largest):
    found = bounded_rate(rate, largest)
    assert found == pytest.approx(rate * largest / (rate + largest))
    assert found <= min(rate, largest)
    assert found >= min(rate, largest) / 2 * (1 - 1e-12)


def test_small_rates_stay_and_none_reaches_the_bound():
    assert bounded_rate(1e-4) == pytest.approx(1e-4, rel=1e-3)
    assert 0.39 < bounded_rate(1e3) < 0.4
    assert bounded_rate(0.4) == pytest.approx(0.2)


def test_rates_that_agree_keep_the_prior():
    weight = weigh_rates(held_with_hits(np.tile([True, False, True], (4, 1))))
    np.testing.assert_allclose(weight, PRIOR, atol=1e-12)
    assert raised_by(weight) == pytest.approx(1.0)


def test_weights_by_hand():
    hits = np.zeros((4, 20), dtype=bool)
    hits[0, :10] = True
    hits[1, 2:15] = True  # loses two, finds five: three more of seven
    hits[2, :6] = True  # loses four of four
    hits[3, 10:] = True  # finds and loses ten
    expected = PRIOR * np.exp([0, 9 / (2 * 8), -16 / (2 * 5), 0])
    np.testing.assert_allclose(weigh_rates(held_with_hits(hits)), expected / expected.sum(), atol=1e-12)


@given(hits=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_weights_sum_to_one_do_not_know_the_order_and_only_raise(hits, seed):
    table = np.array(hits).T
    weight = weigh_rates(held_with_hits(table))
    assert float(weight.sum()) == pytest.approx(1)
    shuffled = table[:, np.random.default_rng(seed).permutation(table.shape[1])]
    torch.testing.assert_close(weigh_rates(held_with_hits(shuffled)), weight)
    assert 1 <= raised_by(weight) <= 30


def test_labels_that_a_larger_rate_finds_raise_the_rate():
    hits = np.zeros((4, 40), dtype=bool)
    hits[2] = True
    weight = weigh_rates(held_with_hits(hits))
    assert int(weight.argmax()) == 2
    assert raised_by(weight) == pytest.approx(10 ** float(weight[2] - PRIOR[2]))
    assert raised_by(torch.tensor([0.0, 0.0, 0.0, 1.0])) == pytest.approx(30 ** (14 / 15))
    assert raised_by(torch.tensor([1.0, 0.0, 0.0, 0.0])) == 1.0
