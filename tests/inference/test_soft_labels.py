import math
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from helpers import clusters
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tg_crepe import LGC
from tg_crepe.inference.label_trust import hold_out
from tg_crepe.inference.soft_labels import calibrate, certainty, match_confidence, relative_weights
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.solvers import Trace
from tg_crepe.training.metrics import expected_calibration_error


def make_task(num_labels: int = 12, multi_label: bool = False, seed: int = 0) -> LabelTask:
    graph, y = clusters(seed)
    chosen = torch.from_numpy(np.random.default_rng(seed).choice(graph.num_nodes, num_labels, replace=False))
    labelled = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill_(0, chosen, True)
    sign = torch.where(labelled.unsqueeze(1), 2.0 * (y.unsqueeze(1) == torch.arange(3)) - 1, 0.0)
    return LabelTask(graph, sign.double(), multi_label, torch.arange(3), 3)


def one_label_per_class() -> LabelTask:
    graph, y = clusters(0)
    chosen = [int((y == c).nonzero()[0]) for c in range(3)]
    sign = torch.zeros(graph.num_nodes, 3, dtype=torch.float64)
    sign[chosen] = 2 * torch.eye(3, dtype=torch.float64) - 1
    return LabelTask(graph, sign, False, torch.arange(3), 3)


def make_solution(task: LabelTask, noise: float = 0.5) -> Solution:
    _, y = clusters(0)
    generator = torch.Generator().manual_seed(1)
    score = (y.unsqueeze(1) == torch.arange(3)) + noise * torch.randn(task.graph.num_nodes, 3, generator=generator)
    if task.multi_label:
        score = score - 0.5
    return Solution(score.double(), score.double(), Trace(), "converged")


def test_relative_weights_are_the_paper_s():
    u = torch.tensor([[2.0, 1.0, -3.0], [0.0, 0.0, 0.0], [-1.0, 3.0, -2.0], [-1.0, 1.0, 0.0]])
    expected = torch.tensor([[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0], [0, 1, 0]])
    torch.testing.assert_close(relative_weights(u, False), expected)
    assert relative_weights(torch.tensor([[0.3, -2.0, 0.0]]), True).tolist() == [[1.0, 0.0, 0.5]]


def test_certainty_is_one_minus_relative_entropy():
    prob = torch.tensor([[1.0, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]])
    torch.testing.assert_close(
        certainty(prob, False), torch.tensor([1, 0, 1 - math.log(2) / math.log(3)]), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(certainty(torch.tensor([[0.5, 1.0], [0.5, 0.5]]), True), torch.tensor([0.5, 0.0]))
    unknown = torch.tensor([[False, True]])
    assert certainty(torch.tensor([[0.5, 1.0]]), True, unknown).tolist() == [0.0]
    assert certainty(torch.ones(2, 1), False).tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_mean_confidence_of_unlabelled_nodes_is_what_labels_left_out_say(seed):
    task = make_task(seed=seed)
    held = hold_out(task)
    prob = calibrate(task, make_solution(task))
    expected = 1 - max(held.error, 1 / 14)
    assert float(prob[~task.labelled].amax(dim=1).mean()) == pytest.approx(expected, abs=1e-9)


def test_nodes_that_depend_on_which_labels_are_known_are_less_sure():
    task = make_task()
    score = torch.nn.functional.one_hot(clusters(0)[1], 3).double()  # all nodes equally sure
    prob = calibrate(task, Solution(score, score, Trace(), "converged")).amax(dim=1)
    support = hold_out(task).support.gather(1, score.argmax(dim=1, keepdim=True)).squeeze(1)
    assert torch.equal(prob[support.argsort()], prob.sort().values)
    assert float(prob.max() - prob.min()) > 0.1


def test_calibrated_where_the_truth_is_known():
    error = []
    for seed in range(8):
        graph, y = clusters(seed, num_nodes=600, spread=3.0)
        chosen = torch.from_numpy(np.random.default_rng(seed).choice(600, 40, replace=False))
        mask = torch.zeros(600, dtype=torch.bool).index_fill_(0, chosen, True)
        both = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)
        result = LGC().propagate(y, both[0], mask, both[1])
        right = (result.label == y)[~mask].double().mean()
        error.append(float(result.prob[~mask].amax(dim=1).mean() - right))
        assert expected_calibration_error(result.prob[~mask], y[~mask]) < 0.2
    assert abs(np.mean(error)) < 0.05


@pytest.mark.parametrize("confidence", [0.4, 0.7, 0.95, 0.99])
def test_search_finds_the_confidence(confidence):
    score = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sharpness = match_confidence(score, confidence)
    assert float(torch.softmax(sharpness * score, dim=1).amax(dim=1).mean()) == pytest.approx(confidence, abs=1e-10)


@pytest.mark.parametrize("confidence", [0.4, 0.6, 0.8, 0.95])
def test_search_looks_at_the_scores_at_most_13_times(confidence):
    looks = []
    counting = Mock(sum=lambda x: looks.append(x) or x)
    score = torch.randn(500, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    match_confidence(score, confidence, counting)
    assert len(looks) <= 1 + 13  # and once to count them


def test_search_stays_in_its_range():
    score = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert match_confidence(score, 0.2) == pytest.approx(1e-2)
    assert match_confidence(score, 1.0) == pytest.approx(1e3)
    assert match_confidence(torch.zeros(20, 3, dtype=torch.float64), 0.9) == pytest.approx(1e3)


@pytest.mark.parametrize("multi_label", [False, True])
def test_findings_and_single_labels_are_judged_by_the_log_loss_at_neighbours(multi_label):
    task = make_task(multi_label=True) if multi_label else one_label_per_class()
    solution = make_solution(task)
    prob = calibrate(task, solution).numpy()
    score = solution.score.numpy()
    if not multi_label:
        score = score - score.mean(axis=1, keepdims=True)
    # Recover the sharpness from the answer, and compare with a minimisation of the loss written out anew.
    log = np.log(prob / (1 - prob)) if multi_label else np.log(prob) - np.log(prob).mean(axis=1, keepdims=True)
    found = float((log * score).sum() / (score * score).sum())
    np.testing.assert_allclose(log, found * score, atol=1e-6)

    w, labelled = task.graph.adjacency.to_dense().numpy(), task.labelled.numpy()
    rows = [i for i in np.flatnonzero(labelled) if w[i, ~labelled].sum() > 0]
    mean = np.stack([w[i, ~labelled] @ score[~labelled] / w[i, ~labelled].sum() for i in rows])
    truth = (task.sign.numpy()[rows] + 1) / 2
    m = truth.size if multi_label else len(rows)
    sure = (m + 1) / (m + 2)
    target = truth * sure + (1 - truth) * (1 - sure) / (1 if multi_label else 2)

    def loss(log_sharpness: float) -> float:
        z = math.exp(log_sharpness) * mean
        if multi_label:
            return float((np.logaddexp(0, z) - target * z).mean())
        return float((np.log(np.exp(z).sum(axis=1)) - (target * z).sum(axis=1)).mean())

    best = minimize_scalar(loss, bounds=(-5, 8), method="bounded", options={"xatol": 1e-8}).x
    assert found == pytest.approx(math.exp(best), rel=1e-3)


@given(scale=st.floats(1e-4, 1e4))
def test_scale_of_the_scores_does_not_matter(scale):
    task = make_task()
    solution = make_solution(task)
    scaled = Solution(solution.u, scale * solution.score, Trace(), "converged")
    torch.testing.assert_close(calibrate(task, scaled), calibrate(task, solution), atol=1e-9, rtol=0)


def test_few_labels_cannot_claim_certainty():
    task = make_task(num_labels=3)
    perfect = make_solution(task, noise=0.0)
    few = calibrate(task, perfect).amax(dim=1).mean()
    many = calibrate(make_task(num_labels=60), make_solution(make_task(num_labels=60), noise=0.0)).amax(dim=1).mean()
    assert float(few) < 0.85 < float(many)


def test_order_of_classes_is_kept():
    prob = calibrate(make_task(), make_solution(make_task()))
    assert torch.equal(prob.argmax(dim=1), make_solution(make_task()).score.argmax(dim=1))
    torch.testing.assert_close(prob.sum(dim=1), torch.ones(150, dtype=torch.float64))


def test_constant_scores_and_labels_without_unlabelled_neighbours_are_finite():
    task = make_task()
    flat = Solution(torch.zeros(150, 3), torch.zeros(150, 3), Trace(), "converged")
    torch.testing.assert_close(calibrate(task, flat), torch.full((150, 3), 1 / 3, dtype=torch.float64))
    everyone = make_task(num_labels=150)
    assert bool(torch.isfinite(calibrate(everyone, make_solution(everyone))).all())
