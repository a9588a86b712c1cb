"""Soft evidence: trusted as far as labels agree, centred for the flow, a bounded source of the diffusion."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import cluster_task, opinion
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.inference.evidence import add_evidence, check_prior, evidence_push, evidence_source
from tg_crepe.inference.labels import read_labels
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.trust import weigh_prior
from tg_crepe.solvers import Trace


def findings_task() -> tuple[LabelTask, torch.Tensor]:
    task, y = cluster_task((6, 6, 6))
    return replace(task, multi_label=True), y


@given(seed=st.integers(0, 1000))
def test_the_push_is_centred_over_classes_and_along_the_degree(seed):
    task, _ = cluster_task((3, 3, 3))
    prob = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(3), task.graph.num_nodes))
    push = evidence_push(replace(task, evidence=prob), task.graph)
    torch.testing.assert_close(push.sum(dim=1), torch.zeros(len(push), dtype=torch.float64), atol=1e-12, rtol=0)
    along = push.t() @ task.graph.degree
    torch.testing.assert_close(along, torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0)


def test_evidence_that_says_the_same_everywhere_does_not_push():
    task, _ = cluster_task((3, 3, 3))
    # Equal degrees, so that a constant is along the degree.
    graph = task.graph.with_weight(torch.ones_like(task.graph.edge_weight))
    constant = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).expand(graph.num_nodes, 3)
    pushed = evidence_push(replace(task, evidence=constant), graph)
    different = evidence_push(replace(task, evidence=opinion(torch.arange(graph.num_nodes) % 3)), graph)
    assert float(pushed.norm()) < float(different.norm())
    nothing = torch.full_like(constant, 1 / 3)
    assert float(evidence_push(replace(task, evidence=nothing), graph).norm()) < 1e-12


def test_sources_weigh_no_more_than_the_labels_and_never_stand_on_one():
    task, y = cluster_task((2, 2, 2))
    source = evidence_source(replace(task, evidence=torch.eye(3, dtype=torch.float64)[y]))
    assert float(source.sum()) == pytest.approx(6)
    assert float(source[task.labelled].abs().sum()) == 0
    assert torch.equal(source.argmax(dim=1)[~task.labelled], y[~task.labelled])
    nothing = torch.full((len(y), 3), 1 / 3, dtype=torch.float64)
    assert float(evidence_source(replace(task, evidence=nothing)).abs().max()) < 1e-12


def test_sources_of_findings_are_two_classes_each():
    task, y = findings_task()
    prior = torch.where(torch.eye(3, dtype=torch.bool)[y], 0.9, 0.2).double()
    found, trust, _ = weigh_prior(task, prior)
    assert trust > 0
    source = evidence_source(replace(task, evidence=found))
    assert source.shape == (len(y), 6)
    known = (task.sign != 0).repeat(1, 2)
    assert float(source[known].abs().sum()) == 0
    positive, negative = source[~task.labelled].chunk(2, dim=1)
    assert torch.equal(positive > negative, found[~task.labelled] > 0.5)


@pytest.mark.parametrize("multi_label", [False, True])
def test_product_with_the_evidence(multi_label):
    task, y = findings_task() if multi_label else cluster_task((3, 3, 3))
    rng = np.random.default_rng(0)
    evidence = torch.from_numpy(rng.uniform(0.1, 0.9, (len(y), 3)))
    prob = torch.from_numpy(rng.uniform(0.1, 0.9, (len(y), 3)))
    if not multi_label:
        evidence, prob = (p / p.sum(dim=1, keepdim=True) for p in (evidence, prob))
    score = torch.zeros_like(prob)
    found = add_evidence(replace(task, evidence=evidence), Solution(score, score, Trace(), "converged"), prob)
    if multi_label:
        product, other = prob * evidence, (1 - prob) * (1 - evidence)
        torch.testing.assert_close(torch.sigmoid(found.score), product / (product + other), atol=2e-3, rtol=0)
    else:
        product = prob * evidence
        wanted = product / product.sum(dim=1, keepdim=True)
        torch.testing.assert_close(torch.softmax(found.score, dim=1), wanted, atol=2e-3, rtol=0)
        doubt = float(1 - wanted[~task.labelled].amax(dim=1).mean())
        assert found.judgement.expected.value == pytest.approx(doubt, abs=2e-3)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (torch.ones(4, 2), r"\[num_nodes, num_classes\] = \[4, 3\], got torch.float32 of shape \[4, 2\]"),
        (torch.ones(4, 3, dtype=torch.long), "floating type"),
        (torch.tensor([[0.5, 0.5, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]]), r"not all 0.*row\(s\) \[?1"),
        (torch.tensor([[0.5, -0.5, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]), ">= 0"),
        (torch.tensor([[0.5, torch.nan, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]), "NaN alone"),
        (torch.tensor([[torch.inf, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]), ">= 0"),
        ([[1, 0, 0]] * 4, "'prior' must be a torch.Tensor"),
    ],
)
def test_what_is_no_evidence_is_refused(prior, message):
    labels = read_labels(torch.tensor([0, 1, 2, -1]), None, None, None)
    with pytest.raises(ValueError, match=message):
        check_prior(prior, labels)


def test_findings_want_numbers_up_to_one_and_may_leave_any_out():
    labels = read_labels(torch.tensor([[0.0, 1], [1, -1], [-1, -1]]), None, None, None)
    check_prior(torch.tensor([[0.5, torch.nan], [1, 0], [torch.nan, torch.nan]]), labels)
    with pytest.raises(ValueError, match="between 0 and 1"):
        check_prior(torch.tensor([[0.5, 1.5], [1, 0], [0, 0]]), labels)
