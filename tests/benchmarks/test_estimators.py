"""What people use on features otherwise: probabilities, scaling, and the head that is tuned by pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from shared import contrastive_head
from shared.contrastive_head import ContrastiveHead
from shared.estimators import ESTIMATORS, code_of, estimate, scale
from sklearn.linear_model import LogisticRegression


def clusters(spread: float = 0.3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three clusters of thirty rows, five of each labelled."""
    y = torch.arange(90) % 3
    x = 3 * torch.eye(6)[y] + spread * torch.randn(90, 6, generator=torch.Generator().manual_seed(0))
    return x, y, torch.arange(90) < 15


@pytest.mark.parametrize("name", ESTIMATORS)
def test_probabilities_belong_to_the_labels(name):
    x, y, mask = clusters()
    answer = estimate(name, x, torch.where(mask, y, -1), mask)
    assert (answer.label == y.numpy()).all()
    if name == "linear SVM":
        assert answer.prob is None
        return
    assert answer.prob.shape == (90, 3)
    np.testing.assert_allclose(answer.prob.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(answer.prob.argmax(axis=1), answer.label)


def test_a_row_that_no_label_reaches_is_of_every_class_alike():
    x, y, mask = clusters(0.01)
    far = 1000 + 10 * torch.rand(30, 6, generator=torch.Generator().manual_seed(1))
    rows = torch.cat([x, far])
    answer = estimate("label spreading", rows, torch.cat([y, far[:, 0].long()]), torch.cat([mask, far[:, 0] < 0]))
    np.testing.assert_allclose(answer.prob[90:], 1 / 3)


def test_rows_are_scaled_as_the_graph_sees_them_but_for_self_training():
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(200, 6, generator=generator) * torch.tensor([1000.0, 1, 1, 1, 1, 1])
    with pytest.warns(match="standardised"):
        np.testing.assert_allclose(scale("kNN", table).std(axis=0), 1, rtol=1e-5)
    even = torch.randn(200, 6, generator=generator)
    np.testing.assert_allclose(scale("linear SVM", even), even)
    np.testing.assert_allclose(scale("self-training", even).std(axis=0, ddof=1), 1, rtol=1e-5)


def test_the_code_of_a_model_is_its_own():
    assert code_of("kNN") == code_of("linear SVM")
    assert code_of("contrastive head") != code_of("kNN")


def test_an_adapter_that_learns_nothing_is_logistic_regression(monkeypatch):
    x, y, mask = clusters(1.5)
    monkeypatch.setattr(contrastive_head, "STEP", 0.0)
    head = ContrastiveHead().fit(x[mask].numpy(), y[mask].numpy())
    plain = LogisticRegression(max_iter=1000).fit(x[mask].numpy(), y[mask].numpy())
    np.testing.assert_allclose(head.predict_proba(x.numpy()), plain.predict_proba(x.numpy()), atol=1e-5)
    assert head.classes_.tolist() == [0, 1, 2]


def test_pairs_bring_rows_of_a_class_together_and_part_the_others(monkeypatch):
    x, y, _ = clusters(1.5)
    monkeypatch.setattr(contrastive_head, "STEP", 3e-3)
    tuned = torch.from_numpy(ContrastiveHead().fit(x.numpy(), y.numpy())._tuned(x))

    def loss(rows: torch.Tensor) -> float:
        cosine = torch.nn.functional.normalize(rows) @ torch.nn.functional.normalize(rows).t()
        return float((cosine - (y.unsqueeze(0) == y.unsqueeze(1)).float()).square().mean())

    assert loss(tuned) < 0.7 * loss(x)


def test_the_seed_decides_and_nothing_else():
    x, y, _ = clusters(1.5)
    heads = [ContrastiveHead(seed).fit(x.numpy(), y.numpy()) for seed in (0, 0, 1)]
    first, again, other = (head.predict_proba(x.numpy()) for head in heads)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_pairs_are_of_one_class_and_of_two_in_equal_number():
    y = torch.tensor([0, 0, 0, 1, 1, 2])  # the last is alone in its class
    first, second = contrastive_head._pairs(y, torch.Generator().manual_seed(0))
    same = y[first] == y[second]
    assert (first != second).all()
    assert int(same.sum()) == 5 * contrastive_head.PARTNERS
    assert int((~same).sum()) == 6 * contrastive_head.PARTNERS
    assert torch.bincount(first[~same]).tolist() == [contrastive_head.PARTNERS] * 6
