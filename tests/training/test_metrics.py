import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import accuracy_score, roc_auc_score
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from tg_crepe.training import (
    area_under_curve,
    error_rate,
    expected_calibration_error,
    fit_temperature,
    pseudo_label_error,
    reliability_curve,
)


def problem(num=300, classes=4, seed=0, noise=1.0):
    """Classes and logits that know something of them."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (num,), generator=generator)
    logits = torch.nn.functional.one_hot(y, classes) * 2.0 + noise * torch.randn(num, classes, generator=generator)
    return logits, y


def findings(num=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (num, 3), generator=generator)
    score = y + torch.randn(num, 3, generator=generator)
    y[torch.rand(num, 3, generator=generator) < 0.2] = -1
    return score, y


def test_error_rate_agrees_with_sklearn():
    logits, y = problem()
    assert error_rate(logits, y) == pytest.approx(1 - accuracy_score(y, logits.argmax(1)), abs=1e-6)


def test_error_rate_leaves_unknown_images_out():
    score = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert error_rate(score, torch.tensor([0, -1, 0])) == pytest.approx(0.5)
    assert error_rate(score, torch.tensor([-1, -1, -1])) is None
    assert error_rate(score[:, :1], torch.tensor([0, 0, 0])) == 0.0


def test_error_rate_of_findings_counts_known_entries():
    prob = torch.tensor([[0.9, 0.2], [0.4, 0.6]])
    assert error_rate(prob, torch.tensor([[1.0, 1.0], [math.nan, 1.0]])) == pytest.approx(1 / 3)


def test_pseudo_label_error_counts_pseudo_labels_alone():
    pseudo = torch.tensor([0, 1, 1, -1, 2])
    truth = torch.tensor([0, 1, 0, 1, 2])
    mask = torch.tensor([False, True, True, False, True])
    assert pseudo_label_error(pseudo, truth, mask) == pytest.approx(1 / 3)
    assert pseudo_label_error(pseudo, truth, torch.zeros(5, dtype=torch.bool)) is None
    assert pseudo_label_error(pseudo[:2].view(1, 2), torch.tensor([[1, -1]]), torch.tensor([True])) == 1.0


def test_area_of_classes_agrees_with_sklearn():
    logits, y = problem()
    area = area_under_curve(logits, y)
    expected = [roc_auc_score(y == k, logits[:, k]) for k in range(4)]
    assert list(area.per_class) == [0, 1, 2, 3]
    assert list(area.per_class.values()) == pytest.approx(expected, abs=1e-6)
    assert area.average == pytest.approx(np.mean(expected), abs=1e-6)
    assert area.left_out == []


def test_area_of_findings_agrees_with_sklearn_on_known_entries():
    score, y = findings()
    area = area_under_curve(score, y)
    for k in range(3):
        known = y[:, k] >= 0
        assert area.per_class[k] == pytest.approx(roc_auc_score(y[known, k], score[known, k]), abs=1e-6)


def test_area_depends_on_the_order_alone():
    logits, y = problem()
    logits = logits.double().round(decimals=1)  # with ties
    area = area_under_curve(logits, y)
    assert area_under_curve(1e-9 * logits - 1, y) == area
    assert area_under_curve(1e6 * logits, y) == area
    assert area.per_class[0] == pytest.approx(roc_auc_score(y == 0, logits[:, 0]), abs=1e-6)


def test_classes_without_positives_or_negatives_are_left_out_and_stated():
    area = area_under_curve(torch.rand(4, 3), torch.tensor([[1, 1, -1], [0, 1, -1], [1, 1, -1], [0, -1, -1]]))
    assert list(area.per_class) == [0]
    assert area.left_out == [1, 2]
    assert area.average == area.per_class[0]
    nothing = area_under_curve(torch.rand(2, 2), torch.tensor([0, 0]))
    assert nothing.average is None
    assert nothing.left_out == [0, 1]


def test_reliability_by_hand():
    prob = torch.tensor([[0.55, 0.45], [0.58, 0.42], [0.05, 0.95], [0.0, 1.0], [0.7, 0.3]])
    curve = reliability_curve(prob, torch.tensor([0, 1, 1, 1, -1]), num_bins=10)
    assert curve.count.tolist() == [2, 2]
    assert curve.confidence.tolist() == pytest.approx([0.565, 0.975])
    assert curve.accuracy.tolist() == [0.5, 1.0]
    assert curve.expected_error == pytest.approx((0.065 + 0.025) / 2)


@pytest.mark.parametrize("num_bins", [5, 15])
def test_calibration_error_agrees_with_torchmetrics(num_bins):
    logits, y = problem()
    prob = torch.softmax(logits.double(), dim=1)
    expected = multiclass_calibration_error(prob, y, num_classes=4, n_bins=num_bins)
    assert expected_calibration_error(prob, y, num_bins) == pytest.approx(float(expected), abs=1e-6)
    score, present = findings()
    prob, known = torch.sigmoid(score), present >= 0
    expected = binary_calibration_error(prob[known], present[known], n_bins=num_bins)
    assert expected_calibration_error(prob, present, num_bins) == pytest.approx(float(expected), abs=1e-6)


def test_nothing_known_has_no_calibration_error():
    assert expected_calibration_error(torch.full((2, 2), 0.5), torch.tensor([-1, -1])) is None


def test_temperature_minimises_the_softened_log_loss():
    logits, y = problem(noise=2.0)
    m, classes = logits.shape
    sure = (m + 1) / (m + 2)
    soft = torch.full((m, classes), (1 - sure) / (classes - 1)).scatter(1, y.view(-1, 1), sure).double()

    def loss(log_temperature):
        return float(-(soft * torch.log_softmax(logits.double() / math.exp(log_temperature), dim=1)).sum())

    best = math.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-9}).x)
    assert fit_temperature(logits, y) == pytest.approx(best, rel=1e-4)


def test_temperature_undoes_a_scale_and_calibrates():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=generator) * 1.5
    y = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator).view(-1)
    temperature = fit_temperature(5 * logits, y)
    assert temperature == pytest.approx(5, rel=0.1)
    over = expected_calibration_error(torch.softmax(5 * logits, dim=1), y)
    assert expected_calibration_error(torch.softmax(5 * logits / temperature, dim=1), y) < 0.3 * over


def test_temperature_of_findings_and_of_nothing():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2000, 2, generator=generator) * 2
    y = (torch.rand(2000, 2, generator=generator) < torch.sigmoid(logits)).long()
    y[::7] = -1
    assert fit_temperature(3 * logits, y) == pytest.approx(3, rel=0.1)
    assert fit_temperature(logits, torch.full((2000,), -1)) == 1.0


def test_unlabelled_images_do_not_reach_the_temperature():
    logits, y = problem(40)
    y[20:] = -1
    assert fit_temperature(logits, y) == fit_temperature(logits[:20], y[:20])


def test_perfect_predictions_have_a_finite_temperature():
    y = torch.arange(10) % 2
    assert 0 < fit_temperature(torch.nn.functional.one_hot(y, 2).float() * 10, y) < 100


def test_missing_torchmetrics_names_the_extra(monkeypatch):
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None)
    for metric in (error_rate, area_under_curve):
        with pytest.raises(ImportError, match=r"'torchmetrics' .* pip install \"tg-crepe\[train\]\""):
            metric(torch.rand(3, 2), torch.tensor([0, 1, 1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: error_rate(torch.rand(3), torch.tensor([0])), r"'score' must be finite .* got shape \[3\]"),
        (lambda: error_rate(torch.full((1, 2), math.nan), torch.tensor([0])), r"'score' must be finite .* got NaN"),
        (
            lambda: area_under_curve(torch.rand(3, 2), torch.tensor([0])),
            r"'target' must be of shape \[3\], .*\[1\]",
        ),
        (lambda: error_rate(torch.rand(1, 2), torch.tensor([2])), r"'target' must be below the 2 columns .* got 2"),
        (lambda: reliability_curve(torch.tensor([[2.0, -1.0]]), torch.tensor([0])), r"'prob' must hold probabilities"),
        (lambda: reliability_curve(torch.rand(1, 2), torch.tensor([0]), 0), r"'num_bins' must be an integer >= 1"),
        (
            lambda: pseudo_label_error(torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([True])),
            r"'truth' must be of shape \[1\], got \[2\]",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
