import numpy as np
import pytest
import torch
from helpers import cluster_task, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.inference.task import Solution
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.refine import _nearest_share, rebalance, soften, wanted_volume
from tg_crepe.models.crepe.start import make_start
from tg_crepe.models.crepe.volumes import VolumePosterior
from tg_crepe.solvers import Trace

RECIPE = Recipe()


EQUAL = torch.full((3,), 1 / 3, dtype=torch.float64)


def skewed(y, share):
    """Soft labels that give the first class to a share of the nodes, by chance, and are right elsewhere."""
    prob = torch.nn.functional.one_hot(y, 3).double()
    lucky = torch.from_numpy(np.random.default_rng(0).random(y.numel()) < share)
    prob[lucky] = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    return 0.9 * prob + 0.1 * torch.from_numpy(np.random.default_rng(1).random(prob.shape))


def within(spread):
    """Equal volumes that may be off by a share of themselves."""
    return VolumePosterior(EQUAL, EQUAL * (1 - spread), EQUAL * (1 + spread))


def answer(score):
    return Solution(score, score, Trace(), "converged")


def start_with(task, volume):
    return make_start(EQUAL.expand(task.graph.num_nodes, 3), task.graph, volume, task, "converged")


def test_labels_within_bounds_are_left_alone():
    task, y = cluster_task((40, 40, 40))
    assert wanted_volume(skewed(y, 0.1), task, within(0.3)) is None
    task, y = cluster_task((1, 1, 1))
    own = torch.bincount(y).double() / y.numel()
    assert wanted_volume(skewed(y, 0.0), task, VolumePosterior.given(own)) is None
    node = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64) / y.numel()
    assert wanted_volume(skewed(y, 0.0), task, VolumePosterior.given(own + 0.9 * node)) is None
    assert wanted_volume(skewed(y, 0.0), task, VolumePosterior.given(own + 2 * node)) is not None


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.4])
def test_wanted_volumes_are_the_nearest_within_the_bounds(spread):
    task, y = cluster_task((2, 2, 2))
    wanted = wanted_volume(skewed(y, 0.5), task, within(spread))
    assert float(wanted.sum()) == pytest.approx(1)
    assert float(wanted[0]) == pytest.approx((1 + spread) / 3)  # the class that has too many nodes ends at its bound
    assert bool((wanted >= (1 - spread) / 3 - 1e-12).all())


def test_known_volumes_are_wanted_as_they_are():
    task, y = cluster_task((2, 2, 2))
    share = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    torch.testing.assert_close(wanted_volume(skewed(y, 0.3), task, VolumePosterior.given(share)), share)


def test_nothing_runs_again_where_the_volumes_are_right():
    task, y = cluster_task((3, 3, 3))
    first = answer(skewed(y, 0.0))
    assert rebalance(task, first, pytest.fail, start_with(task, within(0.2)), RECIPE) is first


@pytest.mark.parametrize("count", [1, 2, 5, 10])
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_the_flow_runs_again_from_labels_whose_volumes_are_within_the_bounds(count, spread, monkeypatch):
    task, y = cluster_task((count,) * 3)
    first, starts, labels = answer(skewed(y, 0.5)), [], []

    def keep_label(label, *args):
        labels.append(label)
        return soften(label, *args)

    monkeypatch.setattr("tg_crepe.models.crepe.refine.soften", keep_label)

    def run(start, time_steps=None, inner_iterations=None):
        starts.append(start)
        return first  # a flow that learns nothing

    found = rebalance(task, first, run, start_with(task, within(spread)), RECIPE)
    assert len(starts) == RECIPE.balancing_rounds
    assert found is first  # what the last flow says is not moved
    slack = 3 * 1.5 / y.numel()  # whole nodes
    for start, label in zip(starts, labels, strict=True):
        assert start.volume.low is start.volume.high is start.volume.share
        wanted = 3 * start.volume.share
        assert float(wanted.sum()) == pytest.approx(3)
        assert 1 - spread - 1e-9 <= float(wanted.min()) <= float(wanted.max()) <= 1 + spread + 1e-9
        np.testing.assert_allclose(3 * torch.bincount(label, minlength=3) / label.numel(), wanted, atol=slack)
        assert torch.equal(label[task.labelled], y[task.labelled])


def test_a_flow_that_ends_within_the_bounds_is_the_answer():
    task, y = cluster_task((3, 3, 3))
    better = answer(skewed(y, 0.0))
    starts = []

    def run(start, time_steps=None, inner_iterations=None):
        starts.append(start)
        return better

    assert rebalance(task, answer(skewed(y, 0.5)), run, start_with(task, within(0.2)), RECIPE) is better
    assert len(starts) == 1


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


def test_softened_labels_are_ten_lazy_steps():
    task, y = cluster_task((1, 1, 1))
    w = dense_adjacency(task.graph)
    step = 0.5 * (np.eye(len(w)) + w / w.sum(axis=1, keepdims=True))
    expected = np.linalg.matrix_power(step, 10) @ np.eye(3)[y.numpy()]
    found = soften(y, task.graph, 3, steps=10)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
