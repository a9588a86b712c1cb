"""How far evidence is trusted: the exponent against an oracle, and what noise, constants and lies are worth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import cluster_task, opinion
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tg_crepe.inference.expected_error import diffused_support
from tg_crepe.inference.trust import weigh_prior


def best_exponent(loss) -> float:
    """The global minimiser on a grid, then nearby: independent of where a search begins."""
    grid = np.linspace(0, 1, 201)
    at = grid[np.argmin([loss(t) for t in grid])]
    near = minimize_scalar(loss, bounds=(max(at - 0.01, 0), min(at + 0.01, 1)), method="bounded")
    return float(near.x) if near.fun < loss(0.0) else 0.0


def test_trust_maximises_the_likelihood_at_the_labels_and_on_the_graph():
    task, y = cluster_task((7, 5, 9))
    prior = opinion(y)
    found, trust, judged = weigh_prior(task, prior)
    assert judged
    log_prior = torch.log(0.999 * prior + 0.001 / 3).numpy()
    labelled = task.labelled.numpy()
    label = task.y[task.labelled].numpy()
    worth = (1 / np.bincount(label))[label]
    worth = worth / worth.mean()
    support = diffused_support(task).numpy()[~labelled]

    def evidence(t: float, rows: np.ndarray) -> np.ndarray:
        power = np.exp(t * log_prior[rows])
        return power / power.sum(axis=1, keepdims=True)

    def loss(t: float) -> float:
        at_labels = worth @ np.log(evidence(t, labelled)[np.arange(len(label)), label])
        own = evidence(t, ~labelled)
        on_graph = np.log((support * own / own.mean(axis=0)).sum(axis=1)).mean()
        return float(t**2 / 2 - at_labels - 1000 * on_graph)

    assert trust == pytest.approx(best_exponent(loss), abs=1e-3)
    np.testing.assert_allclose(found.numpy(), evidence(trust, np.arange(len(y))), atol=1e-10)


def test_trust_of_findings_minimises_the_log_loss_at_the_labels():
    task, y = cluster_task((6, 6, 6))
    task = replace(task, multi_label=True)
    prior = torch.where(torch.eye(3, dtype=torch.bool)[y], 0.7, 0.4).double()
    prior[::5] = 1 - prior[::5]
    trust = weigh_prior(task, prior)[1]
    right = np.where(task.sign > 0, prior, 1 - prior)[(task.sign != 0).numpy()]
    positive = (task.sign > 0).numpy()[(task.sign != 0).numpy()]
    odds = np.log((0.999 * right + 0.0005) / (0.999 * (1 - right) + 0.0005))
    worth = np.where(positive, 1 / positive.sum(), 1 / (~positive).sum())
    worth = worth / worth.mean()
    best = best_exponent(lambda t: float(worth @ np.logaddexp(0, -t * odds) + 5 * t**2))
    assert trust == pytest.approx(best, abs=1e-3)


@given(seed=st.integers(0, 10_000), hard=st.booleans())
def test_noise_is_not_trusted_whatever_labels_it_happens_to_agree_with(seed, hard):
    task, y = cluster_task((2, 2, 2))
    rng = np.random.default_rng(seed)
    noise = torch.from_numpy(np.eye(3)[rng.integers(0, 3, len(y))] if hard else rng.dirichlet(np.ones(3), len(y)))
    noise[task.labelled] = 0.9 * torch.eye(3, dtype=noise.dtype)[task.y[task.labelled]] + 0.1 / 3  # by chance
    lucky = weigh_prior(task, noise)[1]
    assert lucky < 0.25
    assert weigh_prior(task, opinion(y, seed=seed))[1] > 2 * lucky


def test_contradiction_and_a_constant_are_worth_nothing():
    for count in (1, 5, 20):
        task, y = cluster_task((count,) * 3)
        assert weigh_prior(task, opinion(y, 1.0))[1] > 0.5
        assert weigh_prior(task, opinion((y + 1) % 3, 1.0))[1] == 0
        constant = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).expand(len(y), 3)
        assert weigh_prior(task, constant)[1] == 0


def test_where_no_label_can_judge_the_graph_does_and_a_given_trust_decides():
    task, y = cluster_task((4, 4, 4))
    prior, noise = opinion(y), opinion(torch.randint(3, y.shape, generator=torch.Generator().manual_seed(0)))
    for evidence in (prior, noise):
        evidence[task.labelled] = torch.nan
    found, trust, judged = weigh_prior(task, prior)
    assert not judged
    assert trust > 0.5
    torch.testing.assert_close(found[task.labelled], torch.full_like(found[task.labelled], 1 / 3))
    assert weigh_prior(task, noise)[1] < 0.05
    assert weigh_prior(task, opinion(y), 0.0)[0].unique().numel() == 1
    assert weigh_prior(task, opinion(y), 2.5)[1] == 2.5


def test_findings_that_nobody_can_judge_are_taken_at_their_word():
    task, y = cluster_task((4, 4, 4))
    task = replace(task, multi_label=True)
    prior = torch.where(torch.eye(3, dtype=torch.bool)[y], 0.7, 0.4).double()
    prior[task.labelled] = torch.nan
    assert weigh_prior(task, prior)[1:] == (1.0, False)


def test_classes_of_which_an_opinion_spoke_alone_may_be_left_out():
    task, _ = cluster_task((2, 2, 2))
    prior = torch.zeros(task.graph.num_nodes, 3, dtype=torch.float64)  # all of it was said of a class without a label
    found, _, _ = weigh_prior(task, prior)
    torch.testing.assert_close(found, torch.full_like(found, 1 / 3))
