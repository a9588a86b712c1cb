import numpy as np
import pytest
import torch
from helpers import dense_adjacency, random_graph

from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.start import centre, diffuse, diffused_start, make_start

TOL = Recipe().start_tol


def make_task(multi_label: bool = False) -> LabelTask:
    graph = random_graph(4, num_nodes=15)
    sign = torch.zeros(15, 3, dtype=torch.float64)
    for node, label in enumerate([0, 1, 2, 0]):
        sign[node] = -1
        sign[node, label] = 1
    return LabelTask(graph, sign, multi_label, torch.arange(3), 3)


def dense_diffusion(w: np.ndarray, source: np.ndarray, rate: float, volume: np.ndarray, power: int = 1) -> np.ndarray:
    d = w.sum(axis=1)
    beta = rate / (1 + rate)
    resolvent = np.linalg.inv(np.eye(len(d)) - (1 - beta) * w / np.sqrt(np.outer(d, d)))
    v = np.linalg.matrix_power(resolvent, power) @ source / np.sqrt(d)[:, None]
    return v * volume / (d @ v)


@pytest.mark.parametrize("power", [1, 3])
def test_diffusion_equals_the_dense_formula(power):
    task, volume = make_task(), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    v = dense_diffusion(dense_adjacency(task.graph), (task.sign > 0).double().numpy(), 0.05, volume.numpy(), power)
    prob, status = diffuse(task, task.graph, 0.05, volume, TOL, power)
    assert status == "converged"
    np.testing.assert_allclose(prob.numpy(), v / v.sum(axis=1, keepdims=True), atol=2e-3)


def test_a_finding_diffuses_as_two_classes():
    task, volume = make_task(multi_label=True), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    w = dense_adjacency(task.graph)
    positive = dense_diffusion(w, (task.sign > 0).double().numpy(), 0.05, volume.numpy())
    negative = dense_diffusion(w, (task.sign < 0).double().numpy(), 0.05, 1 - volume.numpy())
    prob, _ = diffuse(task, task.graph, 0.05, volume, TOL)
    np.testing.assert_allclose(prob.numpy(), positive / (positive + negative), atol=2e-3)


def test_reweighting_uses_the_affinity_of_the_last_soft_labels_and_the_first_weights():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    start = diffused_start(task, Recipe(), 0.05, volume, observe=False, outvote=False)
    first, _ = diffuse(task, task.graph, 0.05, volume, TOL)

    def weights(p: torch.Tensor) -> torch.Tensor:
        i, j = task.graph.edge_index
        return task.graph.edge_weight * (p[i] * p[j]).sqrt().sum(dim=1).clamp(1e-3, 1) ** 4

    second, _ = diffuse(task, task.graph.with_weight(weights(first)), 0.05, volume, TOL)
    # Each solve is good to 1e-4, and the package starts the second one from the first.
    torch.testing.assert_close(start.graph.edge_weight, weights(second), atol=1e-4, rtol=1e-4)
    prob, _ = diffuse(task, start.graph, 0.05, volume, TOL)
    torch.testing.assert_close(start.u, centre(prob, start.graph, False), atol=1e-3, rtol=1e-3)


def test_without_reweighting_the_graph_is_the_task_s():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    start = diffused_start(task, Recipe(reweight_rounds=0), 0.05, volume, observe=False, outvote=False)
    assert start.graph is task.graph
    prob, _ = diffuse(task, task.graph, 0.05, volume, TOL)
    torch.testing.assert_close(start.u, make_start(prob, task.graph, start.volume, task, 1.0, "converged").u)


def test_centred_functions_satisfy_what_the_propositions_ask_of_a_start():
    task = make_task()
    prob = torch.rand(15, 3, dtype=torch.float64)
    u = centre(prob / prob.sum(dim=1, keepdim=True), task.graph, multi_label=False)
    assert float(u.sum(dim=1).abs().max()) <= 1e-12
    assert float((task.graph.degree @ u).abs().max()) <= 1e-10
    assert float((task.graph.degree @ centre(prob, task.graph, multi_label=True)).abs().max()) <= 1e-10
