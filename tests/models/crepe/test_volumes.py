import math

import numpy as np
import pytest
import torch
from helpers import cluster_task
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb, expit, gammaln
from scipy.stats import multinomial, norm
from sklearn.datasets import make_blobs

from tg_crepe import knn_graph
from tg_crepe.graph import canonical_graph
from tg_crepe.inference.held_out import HeldOut, deal_labels, leave_out
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.volumes import VolumePosterior, estimate_volume, labels_per_class, random_sample

RECIPE = Recipe()


def make_task(counts):
    """Three clusters with some labels of each."""
    return cluster_task(counts)[0]


def uneven_task(number, seed):
    """Clusters of 100, 200 and 300 nodes well apart, with labels drawn at random or (a list) so many of each."""
    x, y = make_blobs([100, 200, 300], centers=[(0, 0), (5, 0), (2.5, 4.3)], cluster_std=1.0, random_state=seed)
    graph, _ = canonical_graph(*knn_graph(torch.from_numpy(x), 8, metric="euclidean"), 600)
    rng = np.random.default_rng(seed)
    if isinstance(number, int):
        chosen = rng.choice(600, number, replace=False)
    else:
        chosen = np.concatenate([rng.choice(np.flatnonzero(y == c), k, replace=False) for c, k in enumerate(number)])
    sign = torch.zeros(600, 3, dtype=torch.float64)
    sign[chosen] = 2 * torch.eye(3, dtype=torch.float64)[y[chosen]] - 1
    return LabelTask(graph, sign, False, torch.arange(3), 3)


def found_shares(*shares):
    """A diffusion that finds the same shares whatever it is told."""
    return lambda masses: torch.tensor(shares, dtype=torch.float64)


def held_with(guess, found):
    """Labels that are predicted as ``guess``, beside the shares of the unlabelled nodes."""
    prob = torch.eye(3, dtype=torch.float64)[guess].unsqueeze(0)
    return HeldOut((0.1,), prob, torch.tensor(guess), torch.tensor([found], dtype=torch.float64))


def dense_posterior(counts, random, found, error):
    """The docstring's formulas with the constants of the default recipe, written out anew."""
    counts, found, c, classes = np.array(counts, dtype=float), np.array(found), 5, len(counts)
    p, m = counts.sum() / classes, random * counts
    worth = (c + m).sum()
    prior = (c + m) / worth
    variance = error**2 * (0.5 + 2 / p)
    mixed = (worth * prior + classes * found / variance) / (worth + classes / variance)
    # The deviations sum to zero: of the normal densities' factors one class less counts than there are classes.
    delta = classes * found - 1
    odds = (norm.logpdf(delta, scale=math.sqrt(variance)) - norm.logpdf(delta, scale=math.sqrt(variance + 1 / c))).sum()
    odds -= 0.5 * math.log1p(1 / (c * variance))
    dirichlet = gammaln(classes * c) - gammaln(classes * c + m.sum()) + (gammaln(c + m) - gammaln(c)).sum()
    odds += -m.sum() * math.log(classes) - dirichlet
    s = expit(odds)
    drawn = np.sqrt(prior * (1 - prior) / (worth + 1))
    low, high = (
        s / classes * (1 + side * p / 50)
        + (1 - s) * (random * (mixed + side * drawn) + (1 - random) * found * 2.0**side)
        for side in (-1, 1)
    )
    return s / classes + (1 - s) * mixed, low.clip(0, 1), high.clip(0, 1)


shares = st.lists(st.floats(0.02, 1), min_size=3, max_size=3)


@given(counts=st.tuples(*[st.integers(1, 12)] * 3), random=st.floats(0, 1), found=shares, error=st.floats(0.02, 0.6))
def test_posterior_is_that_of_the_formulas(counts, random, found, error):
    found = (np.array(found) / sum(found)).tolist()
    posterior = estimate_volume(make_task(counts), random, found_shares(*found), error, RECIPE)
    for value, expected in zip(
        (posterior.share, posterior.low, posterior.high), dense_posterior(counts, random, found, error), strict=True
    ):
        np.testing.assert_allclose(value, expected, atol=1e-9)


@given(counts=st.tuples(*[st.integers(1, 12)] * 3), random=st.floats(0, 1), found=shares, error=st.floats(0.02, 0.6))
def test_bounds_leave_room_for_shares_that_sum_to_one(counts, random, found, error):
    found = (np.array(found) / sum(found)).tolist()
    posterior = estimate_volume(make_task(counts), random, found_shares(*found), error, RECIPE)
    assert float(posterior.share.sum()) == pytest.approx(1)
    assert float(posterior.low.sum()) <= 1 + 1e-12
    assert float(posterior.high.sum()) >= 1 - 1e-12
    assert bool((posterior.low <= posterior.high).all())
    assert bool((posterior.low >= 0).all())
    assert bool((posterior.high <= 1).all())
    names = [2, 0, 1]
    moved = estimate_volume(
        make_task([counts[c] for c in names]), random, found_shares(*[found[c] for c in names]), error, RECIPE
    )
    torch.testing.assert_close(moved.share, posterior.share[names])
    torch.testing.assert_close(moved.high, posterior.high[names])


@pytest.mark.parametrize("counts", [(2, 4, 6), (10, 20, 30)])
def test_bounds_hold_the_expected_shares_where_counts_and_graph_agree(counts):
    share = (np.array(counts) + 5) / (sum(counts) + 15)
    posterior = estimate_volume(make_task(counts), 1.0, found_shares(*share), 0.1, RECIPE)
    assert bool((posterior.low <= posterior.share).all())
    assert bool((posterior.share <= posterior.high).all())


def test_what_is_found_is_asked_with_the_masses_of_the_counts():
    asked = []

    def found(masses):
        asked.append(masses)
        return masses

    estimate_volume(make_task((1, 4, 10)), 0.5, found, 0.1, RECIPE)
    (masses,) = asked
    np.testing.assert_allclose(masses, np.array([5.5, 7, 10]) / 22.5)


def test_equal_classes_are_found_equal_and_unequal_ones_unequal():
    task = make_task((10, 10, 10))
    equal = estimate_volume(task, 0.0, found_shares(0.34, 0.33, 0.33), 0.1, RECIPE)
    np.testing.assert_allclose(equal.share, 1 / 3, atol=1e-2)
    np.testing.assert_allclose(equal.low, 0.8 / 3, atol=1e-2)  # ten labels per class, of fifty
    np.testing.assert_allclose(equal.high, 1.2 / 3, atol=1e-2)
    unequal = estimate_volume(task, 0.0, found_shares(0.7, 0.2, 0.1), 0.1, RECIPE)
    np.testing.assert_allclose(unequal.share, [0.7, 0.2, 0.1], atol=2e-2)
    np.testing.assert_allclose(unequal.high, [1.0, 0.4, 0.2], atol=1e-2)


def test_a_diffusion_that_is_often_wrong_is_hardly_believed():
    task = make_task((3, 3, 3))
    off = [
        float(estimate_volume(task, 0.0, found_shares(0.5, 0.3, 0.2), error, RECIPE).share[0] - 1 / 3)
        for error in (0.05, 0.2, 0.6)
    ]
    assert off[0] > 0.15
    assert off[0] > off[1] > off[2] > 0


def test_no_imagined_labels_are_finite():
    posterior = estimate_volume(make_task((1, 4, 10)), 0.0, found_shares(0.2, 0.3, 0.5), 0.1, Recipe(pseudo_count=0))
    assert all(bool(torch.isfinite(x).all()) for x in (posterior.share, posterior.low, posterior.high))


def test_known_volumes_are_their_own_bounds():
    share = torch.tensor([0.2, 0.8])
    given_volume = VolumePosterior.given(share)
    assert given_volume.share is given_volume.low is given_volume.high is share


def test_labels_per_class_is_their_mean():
    assert labels_per_class(make_task((1, 4, 10))) == 5


def test_what_a_user_says_of_the_sampling_wins():
    for counts in ((4, 4, 4), (1, 4, 10)):
        task = make_task(counts)
        held = leave_out(task, [0.05], deal_labels(task, 0.05))
        assert random_sample(task, held, "random") == 1.0
        assert random_sample(task, held, "chosen") == 0.0


def test_equal_counts_were_chosen_and_others_are_random_until_the_graph_is_asked():
    task = make_task((4, 4, 4))
    assert random_sample(task, leave_out(task, [0.05], deal_labels(task, 0.05)), "auto") == 0.0
    assert random_sample(make_task((1, 1, 1)), None, "auto") == 0.0
    assert random_sample(make_task((1, 2, 1)), None, "auto") == pytest.approx(0.9)


@given(guess=st.lists(st.integers(0, 2), min_size=1, max_size=20), found=shares)
def test_odds_of_a_random_sample_are_the_formula(guess, found):
    task, found = make_task((2, 4, 6)), np.array(found) / sum(found)
    held = held_with(guess, found.tolist())
    share = (found * 138 + 0.5) / 139.5
    count = np.bincount(guess, minlength=3)
    odds = 9 * multinomial(len(guess), share / share.sum()).pmf(count) * comb(len(guess) + 2, 2)
    assert random_sample(task, held, "auto") == pytest.approx(odds / (1 + odds), rel=1e-6)


def test_labels_that_nothing_reaches_say_nothing():
    held = held_with([0, 1, 1, 2], [0.3, 0.4, 0.3])
    silent = HeldOut(
        held.rate,
        torch.cat([held.prob, torch.zeros(1, 5, 3, dtype=torch.float64)], dim=1),
        torch.cat([held.y, torch.zeros(5, dtype=torch.long)]),
        held.found,
    )
    task = make_task((2, 4, 6))
    assert random_sample(task, silent, "auto") == random_sample(task, held, "auto")


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_a_random_sample_are_believed_and_skewed_ones_are_not(seed):
    drawn, skewed = uneven_task(60, seed), uneven_task([40, 12, 8], seed)
    assert random_sample(drawn, leave_out(drawn, [0.05], deal_labels(drawn, 0.05)), "auto") > 0.9
    assert random_sample(skewed, leave_out(skewed, [0.05], deal_labels(skewed, 0.05)), "auto") < 0.01
