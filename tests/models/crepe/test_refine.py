import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import resolve_volume
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.refine import _nearest_share, balance_labels, soften
from tg_crepe.models.crepe.volumes import VolumeEstimate, count_dispersion, observe_volume

RECIPE = Recipe()


def make_task(counts, seed=0):
    """Three clusters with some labels of each."""
    graph, y = clusters(seed)
    sign = torch.zeros(graph.num_nodes, 3, dtype=graph.edge_weight.dtype)
    for c, count in enumerate(counts):
        sign[(y == c).nonzero().view(-1)[:count]] = 2 * torch.eye(3, dtype=sign.dtype)[c] - 1
    return LabelTask(graph, sign, False, torch.arange(3), 3), y


EQUAL = torch.full((3,), 1 / 3, dtype=torch.float64)


def skewed(y, share):
    """Soft labels that give the first class to a share of the nodes, by chance, and are right elsewhere."""
    prob = torch.nn.functional.one_hot(y, 3).double()
    lucky = torch.from_numpy(np.random.default_rng(0).random(y.numel()) < share)
    prob[lucky] = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    return 0.9 * prob + 0.1 * torch.from_numpy(np.random.default_rng(1).random(prob.shape))


@pytest.mark.parametrize(("counts", "expected"), [((4, 4, 4), 0.0), ((1, 1, 4), 1.5), ((2, 3, 4), 1 / 3)])
def test_dispersion_is_the_variance_of_the_counts_over_their_mean(counts, expected):
    task, _ = make_task(counts)
    assert count_dispersion(task) == pytest.approx(expected)
    assert count_dispersion(task) == pytest.approx(np.var(counts, ddof=1) / np.mean(counts))


def test_labels_within_bounds_are_left_alone():
    task, y = make_task((40, 40, 40))
    assert balance_labels(skewed(y, 0.1), task, VolumeEstimate(EQUAL), RECIPE) is None
    task, y = make_task((1, 1, 1))
    assert balance_labels(skewed(y, 0.0), task, VolumeEstimate(torch.bincount(y).double() / y.numel()), RECIPE) is None


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_balanced_labels_have_volumes_within_the_tolerance_and_keep_what_is_known(count):
    task, y = make_task((count,) * 3)
    label = balance_labels(skewed(y, 0.5), task, VolumeEstimate(EQUAL), RECIPE)
    tolerance = 1 + (count / 40) ** 2
    share = torch.bincount(label, minlength=3).double() / label.numel() * 3
    slack = 3 * 1.5 / label.numel()  # whole nodes
    assert 1 / tolerance - slack <= float(share.min()) <= float(share.max()) <= tolerance + slack
    assert torch.equal(label[task.labelled], y[task.labelled])


def test_counts_that_scatter_or_are_in_doubt_bind_nothing():
    task, y = make_task((1, 1, 8))
    assert balance_labels(skewed(y, 0.3), task, VolumeEstimate(EQUAL), RECIPE) is None
    task, y = make_task((3, 3, 3))
    assert balance_labels(skewed(y, 0.3), task, VolumeEstimate(EQUAL), RECIPE) is not None
    assert balance_labels(skewed(y, 0.3), task, VolumeEstimate(EQUAL, doubt=1.0), RECIPE) is None


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=8),
    st.lists(st.floats(0.01, 1), min_size=8, max_size=8),
    st.floats(1.0, 5.0),
)
def test_nearest_share_sums_to_one_within_its_bounds(share, volume, tolerance):
    share = torch.tensor(share, dtype=torch.float64)
    share = share / share.sum()
    middle = torch.tensor(volume[: share.numel()], dtype=torch.float64)
    middle = middle / middle.sum()
    found = _nearest_share(share, middle / tolerance, middle * tolerance)
    assert float(found.sum()) == pytest.approx(1)
    assert bool((found >= middle / tolerance - 1e-9).all())
    assert bool((found <= middle * tolerance + 1e-9).all())


def found_shares(*shares):
    """A diffusion that finds the same shares whatever it is told."""
    return lambda volume: torch.tensor(shares, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_volumes_follow_what_is_found_where_labels_were_chosen_equally_many(count):
    task, _ = make_task((count,) * 3)
    found = observe_volume(found_shares(0.6, 0.2, 0.2), task, EQUAL, RECIPE)
    doubt = min(max((0.6 - 1 / 3) * count**0.5 / 0.25 - 1, 0), 1)
    weight = doubt * count / (count + 5)
    assert found.doubt == pytest.approx(doubt)
    expected = [(1 - weight) / 3 + weight * share for share in (0.6, 0.2, 0.2)]
    np.testing.assert_allclose(found.share, expected, atol=1e-12)


def test_counts_that_scatter_are_believed():
    task, _ = make_task((5, 20, 35))
    share = resolve_volume("class_volume", "labels", task)
    found = observe_volume(found_shares(0.2, 0.35, 0.45), task, share, RECIPE)
    assert float((found.share - share).abs().max()) < 0.02
    assert found.doubt < 0.02


def test_counts_that_the_graph_refutes_give_way_to_equal_volumes():
    task, _ = make_task((1, 40, 40))
    share = resolve_volume("class_volume", "labels", task)
    assert float(share[0]) == pytest.approx(6 / 96)
    np.testing.assert_allclose(observe_volume(found_shares(1 / 3, 1 / 3, 1 / 3), task, share, RECIPE).share, EQUAL)
    # Three times as large as its labels say: half way.
    half = observe_volume(found_shares(18 / 96, 39 / 96, 39 / 96), task, share, RECIPE)
    np.testing.assert_allclose(half.share, (share + EQUAL) / 2, atol=2e-3)


def test_small_deviations_are_taken_for_chance():
    task, _ = make_task((20, 20, 20))
    found = observe_volume(found_shares(0.36, 0.32, 0.32), task, EQUAL, RECIPE)
    assert torch.equal(found.share, EQUAL)
    assert found.doubt == 0


def test_softened_labels_are_ten_lazy_steps():
    task, y = make_task((1, 1, 1))
    w = dense_adjacency(task.graph)
    step = 0.5 * (np.eye(len(w)) + w / w.sum(axis=1, keepdims=True))
    expected = np.linalg.matrix_power(step, 10) @ np.eye(3)[y.numpy()]
    found = soften(y, task.graph, 3, steps=10)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
