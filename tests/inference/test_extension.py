from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import LGC, CrepePropagation, SparseLP
from tg_crepe.inference.extension import extend, extend_soft_labels


def random_points(seed: int, num_points: int = 7, k: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    v = rng.integers(-3, 4, (12, 3)).astype(float) if seed % 2 else rng.normal(size=(12, 3))  # with ties and without
    neighbor = np.stack([rng.choice(12, k, replace=False) for _ in range(num_points)])
    weight = rng.integers(0, 4, (num_points, k)).astype(float) if seed % 3 == 0 else rng.random((num_points, k))
    return torch.from_numpy(v), torch.from_numpy(neighbor), torch.from_numpy(weight)


@given(st.integers(0, 10_000))
def test_the_median_minimises_the_sum_of_absolute_differences(seed):
    v, neighbor, weight = random_points(seed)
    found = extend(v, neighbor, weight, coupled=False)
    for point in range(len(neighbor)):
        around, w = v[neighbor[point]], weight[point]
        cost = lambda value: (w.unsqueeze(1) * (value - around).abs()).sum(dim=0)  # noqa: E731, B023
        best = torch.stack([cost(value) for value in around]).min(dim=0).values  # a minimum is at one of the values
        torch.testing.assert_close(cost(found[point]), best, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10_000))
def test_the_mean_is_the_weighted_one_and_the_class_mean_is_removed(seed):
    v, neighbor, weight = random_points(seed)
    weight = weight + 0.1
    expected = np.stack([np.average(v[j], axis=0, weights=w) for j, w in zip(neighbor, weight, strict=True)])
    torch.testing.assert_close(extend(v, neighbor, weight, "mean", coupled=False), torch.from_numpy(expected))
    expected -= expected.mean(axis=1, keepdims=True)
    torch.testing.assert_close(extend(v, neighbor, weight, "mean"), torch.from_numpy(expected))
    assert float(extend(v, neighbor, weight).sum(dim=1).abs().max()) < 1e-12


def test_an_even_split_takes_the_middle_and_no_weight_takes_zero():
    v = torch.tensor([[0.0], [1.0], [5.0], [9.0]])
    neighbor = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2, 3], [0, 1, 2, 3]])
    weight = torch.tensor([[1.0, 1, 1, 1], [0.1, 0.2, 0.1, 0.2], [0, 1, 0, 1], [0, 0, 0, 0]])
    assert extend(v, neighbor, weight, coupled=False).view(-1).tolist() == [3.0, 3.0, 5.0, 0.0]


def test_soft_labels_follow_the_median_of_the_scores():
    """A softmax of an affine function of v: the extension of the soft labels is the softmax of that of v."""
    v, neighbor, weight = random_points(4)
    v = v - v.mean(dim=1, keepdim=True)
    bias = torch.tensor([0.3, -0.1, 0.4], dtype=v.dtype)
    expected = torch.softmax(2.5 * extend(v, neighbor, weight) + bias, dim=1)
    torch.testing.assert_close(extend_soft_labels(torch.softmax(2.5 * v + bias, dim=1), neighbor, weight), expected)


@pytest.mark.parametrize("rule", ["median", "mean"])
def test_one_hot_nodes_give_probabilities(rule):
    prob = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    neighbor, weight = torch.tensor([[0, 1, 2], [0, 1, 2]]), torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    found = extend_soft_labels(prob, neighbor, weight, rule)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(2, dtype=found.dtype))
    assert found[0, 0] > 0.6
    assert found[1].tolist() == [0.5, 0.5]


def test_the_rule_fits_the_energy():
    assert [model.extension for model in (CrepePropagation(), SparseLP(), LGC())] == ["median", "median", "mean"]


def test_bad_arguments_are_named():
    v, neighbor, weight = random_points(1)
    for change, message in (
        ({"v": v[:, 0]}, "'v' must be of shape"),
        ({"weight": weight[:, 1:]}, "'neighbor' and 'weight'"),
        ({"neighbor": neighbor + 12}, "'neighbor' must lie in"),
        ({"weight": -weight - 1}, "'weight' must be finite and not negative"),
        ({"rule": "mode"}, "'rule' must be one of 'median', 'mean'"),
    ):
        with pytest.raises(ValueError, match=message):
            extend(**{"v": v, "neighbor": neighbor, "weight": weight, **change})


def test_no_point_gives_no_row():
    empty = torch.empty(0, 3, dtype=torch.long)
    assert extend(torch.randn(4, 2), empty, empty.float()).shape == (0, 2)
