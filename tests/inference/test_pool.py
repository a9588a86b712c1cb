import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.inference import pool
from tg_crepe.inference.pool import by_rows, log_opinion, trust_opinions


def random_opinions(seed, opinions=2, judged=30, classes=3, skill=2.0):
    """Opinions of labels, each right more often than not, and the labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, judged)
    score = rng.standard_normal((opinions, judged, classes)) + skill * np.eye(classes)[y]
    prob = torch.softmax(torch.from_numpy(score), dim=2)
    return log_opinion(prob), torch.from_numpy(y), torch.from_numpy(rng.random(judged) + 0.1)


def loss(w, opinion, y, worth, prior):
    """The objective, written out label by label."""
    total = 0.5 * (w[0] - 1) ** 2 + 0.5 * prior * sum(x**2 for x in w[1:])
    for i, own in enumerate(y.tolist()):
        pooled = sum(x * opinion[k, i].numpy() for k, x in enumerate(w))
        total -= float(worth[i]) * (pooled[own] - np.log(np.exp(pooled).sum()))
    return total


@pytest.mark.parametrize("prior", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_trust_is_the_minimum_on_a_grid(seed, prior):
    opinion, y, worth = random_opinions(seed)
    found = trust_opinions(opinion, y, worth, [1.0, 0.0], [1.0, prior]).numpy()
    best = loss(found, opinion, y, worth, prior)
    grid = np.linspace(0, 3, 31)
    assert best <= min(loss((a, b), opinion, y, worth, prior) for a in grid for b in grid) + 1e-6
    for step in (1e-3, -1e-3):
        for k in range(2):
            moved = found.copy()
            moved[k] = max(moved[k] + step, 0)
            assert best <= loss(moved, opinion, y, worth, prior) + 1e-9


@given(seed=st.integers(0, 10_000))
def test_names_of_classes_and_order_of_labels_do_not_matter(seed):
    opinion, y, worth = random_opinions(seed)
    order, names = (torch.from_numpy(np.random.default_rng(seed).permutation(n)) for n in (30, 3))
    moved = trust_opinions(
        opinion[:, order][:, :, names], names.argsort()[y[order]], worth[order], [1.0, 0.0], [1.0, 10.0]
    )
    torch.testing.assert_close(moved, trust_opinions(opinion, y, worth, [1.0, 0.0], [1.0, 10.0]), atol=1e-4, rtol=0)


def test_few_labels_leave_the_first_opinion_its_word_and_many_take_it():
    right, blind = (random_opinions(seed, 1, 400, skill=skill)[0] for seed, skill in ((0, 3.0), (0, 0.0)))
    y = random_opinions(0, 1, 400)[1]
    opinion, worth = torch.cat([blind, right]), torch.ones(400, dtype=torch.float64)
    few = trust_opinions(opinion[:, :3], y[:3], worth[:3], [1.0, 0.0], [1.0, 30.0])
    many = trust_opinions(opinion, y, worth, [1.0, 0.0], [1.0, 30.0])
    assert float(few[0]) > 3 * float(few[1])
    assert float(many[1]) > 3 * float(many[0])


def test_an_opinion_that_is_right_as_often_and_surer_does_not_take_over():
    y = torch.tensor([0, 1, 2, 0])
    sure, doubtful = (
        log_opinion(p * torch.nn.functional.one_hot(y, 3).double() + (1 - p) / 3).unsqueeze(0) for p in (0.99, 0.5)
    )
    found = trust_opinions(torch.cat([doubtful, sure]), y, torch.ones(4, dtype=torch.float64), [1.0, 0.0], [1.0, 30.0])
    assert float(found[0]) > 1
    assert float(found[1]) < 0.1


def test_labels_that_contradict_all_opinions_leave_the_first_its_order():
    opinion, y, worth = random_opinions(0, 2, 60, skill=4.0)
    found = trust_opinions(opinion, (y + 1) % 3, worth, [1.0, 0.0], [1.0, 30.0])
    assert found.tolist() == [0.01, 0.0]
    pooled = torch.tensordot(found, opinion, 1)
    assert torch.equal(pooled.argmax(dim=1), opinion[0].argmax(dim=1))
    assert float(torch.softmax(pooled, dim=1).max()) < 0.36  # next to chance


def test_opinions_rule_nothing_out():
    found = log_opinion(torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64))
    np.testing.assert_allclose(found.exp(), [[0.9995, 0.0005], [0.5, 0.5]])


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 100])
def test_a_function_of_rows_may_take_some_of_them_at_a_time(rows, monkeypatch):
    monkeypatch.setattr(pool, "_NUMBERS_AT_A_TIME", 8 * 3)
    generator = torch.Generator().manual_seed(rows)
    a, b = (torch.randn(rows, 3, generator=generator) for _ in range(2))
    assert torch.equal(by_rows(lambda x, y: (x * y).double(), a, b), (a * b).double())
    assert torch.equal(by_rows(lambda x: x.sum(dim=1), a), a.sum(dim=1))
