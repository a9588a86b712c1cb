import math

import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency

from tg_crepe.inference.label_trust import _every_second, hold_out
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import resolve_volume
from tg_crepe.solvers.resolvent import loose_resolvent, resolvent


def make_task(counts=(5, 4, 6), seed: int = 0, num_nodes: int = 150) -> tuple[LabelTask, torch.Tensor]:
    graph, y = clusters(seed, num_nodes)
    rng = np.random.default_rng(seed)
    sign = torch.zeros(num_nodes, len(counts), dtype=torch.float64)
    for c, count in enumerate(counts):
        chosen = rng.choice(np.flatnonzero(y.numpy() == c), count, replace=False)
        sign[chosen] = -1
        sign[chosen, c] = 1
    return LabelTask(graph, sign, False, torch.arange(len(counts)), len(counts)), y


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-9])
def test_polynomial_is_as_near_to_the_resolvent_as_asked(alpha, tol):
    task, _ = make_task()
    source = task.sources
    found, exact = loose_resolvent(task.graph, source, alpha, tol), resolvent(task.graph, source, alpha, 1e-13).x
    residual = np.eye(150) - alpha * _normalised(task)
    assert float((found - exact).norm()) <= 2 * tol * float(exact.norm())
    assert np.linalg.norm(residual @ (found - exact).numpy()) <= tol * float(source.norm())


def _normalised(task: LabelTask) -> np.ndarray:
    w = dense_adjacency(task.graph)
    root = np.sqrt(w.sum(axis=1))
    return w / root[:, None] / root[None]


def test_error_is_that_of_two_dense_diffusions(monkeypatch):
    monkeypatch.setattr("tg_crepe.inference.label_trust._TOL", 1e-12)
    task, _ = make_task()
    found = hold_out(task, rate=0.05)
    inverse = np.linalg.inv(np.eye(150) - _normalised(task) / 1.05)
    y, labelled = task.y.numpy(), task.labelled.numpy()
    source, volume = (task.sign.numpy() > 0).astype(float), resolve_volume("class_volume", "labels", task).numpy()
    evidence, second = inverse @ source, np.zeros(150, dtype=bool)
    for c in range(3):
        members = np.flatnonzero(y == c)
        second[members[np.argsort(evidence[members, c])][1::2]] = True
    degree, soft = dense_adjacency(task.graph).sum(axis=1), []
    for half in (second, labelled & ~second):
        v = inverse @ (source * half[:, None]) / np.sqrt(degree)[:, None]
        v = v * volume / (degree[:, None] * v).sum(axis=0)
        soft.append(v / v.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.support, (soft[0] + soft[1]) / 2, atol=1e-9)
    judge = np.where(second[:, None], soft[1], soft[0])[labelled]
    wrong = int((judge.argmax(axis=1) != y[labelled]).sum())
    limit = np.sort(judge.max(axis=1))[wrong]
    apart = (soft[0].argmax(axis=1) != soft[1].argmax(axis=1))[~labelled].mean()
    unsure = np.mean([(p.max(axis=1) < limit)[~labelled].mean() for p in soft])
    assert found.error == pytest.approx((1 - 0.9 / math.sqrt(5)) * max(apart, unsure), abs=1e-12)


def test_expected_error_is_near_the_true_one():
    expected, true = [], []
    for seed in range(12):
        task, y = make_task((12, 12, 12), seed, num_nodes=450)
        held = hold_out(task)
        expected.append(held.error)
        true.append(float((held.support.argmax(dim=1) != y)[~task.labelled].double().mean()))
    assert np.mean(expected) == pytest.approx(np.mean(true), abs=0.05)


def test_order_of_nodes_and_names_of_classes_do_not_matter():
    task, _ = make_task()
    order = torch.from_numpy(np.random.default_rng(1).permutation(150))
    names = torch.tensor([2, 0, 1])
    moved = LabelTask(task.graph.reorder(order), task.sign[order][:, names], False, names, 3)
    one, other = hold_out(task, 0.05), hold_out(moved, 0.05)
    assert other.error == one.error
    torch.testing.assert_close(other.support, one.support[order][:, names], atol=1e-12, rtol=0)


def test_a_single_label_is_in_both_halves_and_judges_nothing():
    task, _ = make_task((1, 6, 6))
    held = hold_out(task)
    assert 0 <= held.error < 0.5
    near = task.sign[:, 0] > 0
    assert float(held.support[near, 0]) > 0.5  # as both halves know it
    torch.testing.assert_close(held.support.sum(dim=1), torch.ones(150, dtype=torch.float64))


def test_nothing_can_be_left_out_of_one_label_per_class_or_seen_without_unlabelled_nodes():
    assert hold_out(make_task((1, 1, 1))[0]) is None
    assert hold_out(make_task((2, 1, 1))[0]) is not None
    task, y = make_task()
    every = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    assert hold_out(LabelTask(task.graph, every, False, torch.arange(3), 3)) is None


def test_labels_with_equal_evidence_are_halved_too():
    task, _ = make_task((5, 4, 6))
    second = _every_second(task, torch.ones_like(task.sign))
    assert [int((second & (task.y == c)).sum()) for c in range(3)] == [2, 2, 3]
    assert not bool((second & ~task.labelled).any())
