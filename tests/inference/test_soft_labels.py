import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tg_crepe import LGC
from tg_crepe.graph import canonical_graph
from tg_crepe.inference.expected_error import judge
from tg_crepe.inference.soft_labels import calibrate, certainty, match_confidence, relative_weights, unlabelled_mean
from tg_crepe.inference.task import ExpectedError, Judgement, LabelTask, Solution
from tg_crepe.solvers import Trace
from tg_crepe.training.metrics import expected_calibration_error


def make_task(num_labels: int = 12, multi_label: bool = False, seed: int = 0) -> LabelTask:
    graph, y = clusters(seed)
    chosen = torch.from_numpy(np.random.default_rng(seed).choice(graph.num_nodes, num_labels, replace=False))
    labelled = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill_(0, chosen, True)
    sign = torch.where(labelled.unsqueeze(1), 2.0 * (y.unsqueeze(1) == torch.arange(3)) - 1, 0.0)
    return LabelTask(graph, sign.double(), multi_label, torch.arange(3), 3)


def make_solution(task: LabelTask, noise: float = 0.5) -> Solution:
    """Scores that are about right; of exclusive classes with what labels that were left out say of them."""
    _, y = clusters(0)
    generator = torch.Generator().manual_seed(1)
    score = (y.unsqueeze(1) == torch.arange(3)) + noise * torch.randn(task.graph.num_nodes, 3, generator=generator)
    if task.multi_label:
        score = score - 0.5
    judgement = None if task.multi_label else judge(task)
    return Solution(score.double(), score.double(), Trace(), "converged", judgement=judgement)


def judged(score: torch.Tensor, error: float, support: torch.Tensor) -> Solution:
    """Scores with an expected error and the soft labels of a diffusion."""
    return Solution(score, score, Trace(), "converged", judgement=Judgement(ExpectedError(error, 0, 1), support))


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
    solution = make_solution(task)
    prob = calibrate(task, solution)
    expected = 1 - solution.judgement.expected.value
    assert float(prob[~task.labelled].amax(dim=1).mean()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("error", [0.05, 0.2, 0.5])
def test_calibrated_rows_are_the_formula(error):
    task = make_task()
    generator = torch.Generator().manual_seed(2)
    score, support = (torch.rand(150, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    support[:20] = 1e-5  # as good as no support
    support = support / support.sum(dim=1, keepdim=True).clamp(min=1)
    prob = calibrate(task, judged(score, error, support)).numpy()
    z = score.numpy() - score.numpy().mean(axis=1, keepdims=True)
    trusted = np.maximum(support.numpy()[np.arange(150), z.argmax(axis=1)], 0.01)
    z = np.sqrt(trusted)[:, None] * z
    log = np.log(prob) - np.log(prob).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(log, (log * z).sum() / (z * z).sum() * z, atol=1e-9)
    assert prob[~task.labelled.numpy()].max(axis=1).mean() == pytest.approx(1 - error, abs=1e-9)


def test_nodes_whose_class_the_diffusion_does_not_share_are_less_sure():
    task = make_task()
    score = torch.nn.functional.one_hot(clusters(0)[1], 3).double()  # all nodes equally sure
    judgement = judge(task)
    prob = calibrate(task, Solution(score, score, Trace(), "converged", judgement=judgement)).amax(dim=1)
    support = judgement.support.gather(1, score.argmax(dim=1, keepdim=True)).squeeze(1)
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


def test_findings_are_judged_by_the_log_loss_at_neighbours():
    task = make_task(multi_label=True)
    solution = make_solution(task)
    prob = calibrate(task, solution).numpy()
    score = solution.score.numpy()
    # Recover the sharpness from the answer, and compare with a minimisation of the loss written out anew.
    log = np.log(prob / (1 - prob))
    found = float((log * score).sum() / (score * score).sum())
    np.testing.assert_allclose(log, found * score, atol=1e-6)

    w, labelled = task.graph.adjacency.to_dense().numpy(), task.labelled.numpy()
    rows = [i for i in np.flatnonzero(labelled) if w[i, ~labelled].sum() > 0]
    mean = np.stack([w[i, ~labelled] @ score[~labelled] / w[i, ~labelled].sum() for i in rows])
    truth = (task.sign.numpy()[rows] + 1) / 2
    sure = (truth.size + 1) / (truth.size + 2)
    target = truth * sure + (1 - truth) * (1 - sure)

    def loss(log_sharpness: float) -> float:
        z = math.exp(log_sharpness) * mean
        return float((np.logaddexp(0, z) - target * z).mean())

    best = minimize_scalar(loss, bounds=(-5, 8), method="bounded", options={"xatol": 1e-8}).x
    assert found == pytest.approx(math.exp(best), rel=1e-3)


def test_mean_is_over_unlabelled_neighbours_alone():
    # Nodes 0, 1 and 2 are labelled, 3 and 4 are not; node 2 has labelled neighbours alone.
    edge = torch.tensor([[0, 0, 1, 1, 2, 2], [3, 4, 3, 4, 0, 1]])
    graph, _ = canonical_graph(edge, torch.tensor([3.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 5)
    score = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.8, 0.2], [0.0, 1.0]]).double()
    mean, found = unlabelled_mean(graph, score, torch.tensor([True, True, True, False, False]))
    assert found.tolist() == [True, True, False, False, False]
    torch.testing.assert_close(mean[0], (3 * score[3] + score[4]) / 4)
    torch.testing.assert_close(mean[1], (score[3] + score[4]) / 2)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 149))
def test_mean_over_unlabelled_neighbours_equals_the_dense_one(seed, count):
    graph, _ = clusters(seed % 4)
    rng = np.random.default_rng(seed)
    labelled, score = np.isin(np.arange(150), rng.choice(150, count, replace=False)), rng.standard_normal((150, 2))
    w = dense_adjacency(graph) * ~labelled * labelled[:, None]
    total = w.sum(axis=1)
    mean, found = unlabelled_mean(graph, torch.from_numpy(score), torch.from_numpy(labelled))
    assert np.array_equal(found, total > 0)
    np.testing.assert_allclose(mean[found], (w @ score)[total > 0] / total[total > 0, None], atol=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
@given(scale=st.floats(1e-4, 1e4))
def test_scale_of_the_scores_does_not_matter(multi_label, scale):
    task = make_task(multi_label=multi_label)
    solution = make_solution(task)
    scaled = replace(solution, score=scale * solution.score)
    torch.testing.assert_close(calibrate(task, scaled), calibrate(task, solution), atol=1e-9, rtol=0)


def test_few_labels_cannot_claim_certainty():
    confidence = []
    for count in (1, 20):
        graph, y = clusters(0)
        hot = torch.nn.functional.one_hot(y)
        mask = ((hot.cumsum(dim=0) <= count) & (hot == 1)).any(dim=1)
        sign = torch.where(mask.unsqueeze(1), 2.0 * hot - 1, 0.0).double()
        task = LabelTask(graph, sign, False, torch.arange(3), 3)
        confidence.append(float(calibrate(task, make_solution(task, noise=0.0)).amax(dim=1).mean()))
    assert confidence[0] < 0.85 < confidence[1]


def test_order_of_classes_is_kept():
    prob = calibrate(make_task(), make_solution(make_task()))
    assert torch.equal(prob.argmax(dim=1), make_solution(make_task()).score.argmax(dim=1))
    torch.testing.assert_close(prob.sum(dim=1), torch.ones(150, dtype=torch.float64))


def test_constant_scores_know_nothing():
    task = make_task()
    flat = replace(make_solution(task), score=torch.zeros(150, 3))
    torch.testing.assert_close(calibrate(task, flat), torch.full((150, 3), 1 / 3, dtype=torch.float64))


def test_findings_without_unlabelled_nodes_are_finite():
    everyone = make_task(num_labels=150, multi_label=True)
    assert bool(torch.isfinite(calibrate(everyone, make_solution(everyone))).all())


def test_classes_without_unlabelled_nodes_are_finite():
    everyone = make_task(num_labels=150)
    assert bool(torch.isfinite(calibrate(everyone, make_solution(everyone))).all())
