from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import dense_adjacency, random_graph

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.start import _affinity, _whole_power, centre, diffused_start, make_start
from tg_crepe.models.crepe.volumes import VolumePosterior

TOL = Recipe().start_tol


def make_task(multi_label: bool = False) -> LabelTask:
    graph = random_graph(4, num_nodes=15)
    sign = torch.zeros(15, 3, dtype=torch.float64)
    for node, label in enumerate([0, 1, 2, 0]):
        sign[node] = -1
        sign[node, label] = 1
    return LabelTask(graph, sign, multi_label, torch.arange(3), 3)


def dense_diffusion(w: np.ndarray, source: np.ndarray, rate: float, volume: np.ndarray) -> np.ndarray:
    d = w.sum(axis=1)
    beta = rate / (1 + rate)
    resolvent = np.linalg.inv(np.eye(len(d)) - (1 - beta) * w / np.sqrt(np.outer(d, d)))
    v = resolvent @ source / np.sqrt(d)[:, None]
    return v * volume / (d @ v)


def known(volume: torch.Tensor):
    """Volumes that do not depend on what is found."""
    return lambda x: VolumePosterior.given(volume)


def diffuse(task: LabelTask, graph: CanonicalGraph, volume: torch.Tensor) -> torch.Tensor:
    """Soft labels of the start on edges as they are."""
    start = diffused_start(
        replace(task, graph=graph), Recipe(reweight_rounds=0, start_tol=TOL), 0.05, known(volume), False
    )
    return start.support.double()


def test_diffusion_equals_the_dense_formula():
    task, volume = make_task(), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    v = dense_diffusion(dense_adjacency(task.graph), (task.sign > 0).double().numpy(), 0.05, volume.numpy())
    prob = diffuse(task, task.graph, volume)
    np.testing.assert_allclose(prob.numpy(), v / v.sum(axis=1, keepdims=True), atol=2e-3)


def test_a_finding_diffuses_as_two_classes():
    task, volume = make_task(multi_label=True), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    w = dense_adjacency(task.graph)
    positive = dense_diffusion(w, (task.sign > 0).double().numpy(), 0.05, volume.numpy())
    negative = dense_diffusion(w, (task.sign < 0).double().numpy(), 0.05, 1 - volume.numpy())
    prob = diffuse(task, task.graph, volume)
    np.testing.assert_allclose(prob.numpy(), positive / (positive + negative), atol=2e-3)


def test_reweighting_uses_the_affinity_of_the_last_soft_labels_and_the_first_weights():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    start = diffused_start(task, Recipe(), 0.05, known(volume), outvote=False)
    first = diffuse(task, task.graph, volume)

    def weights(p: torch.Tensor) -> torch.Tensor:
        i, j = task.graph.edge_index
        return task.graph.edge_weight * (p[i] * p[j]).sqrt().sum(dim=1).clamp(1e-3, 1) ** 4

    second = diffuse(task, task.graph.with_weight(weights(first)), volume)
    # Each solve is good to 1e-4, and the package starts the second one from the first.
    torch.testing.assert_close(start.graph.edge_weight, weights(second), atol=1e-4, rtol=1e-4)
    prob = diffuse(task, start.graph, volume)
    torch.testing.assert_close(start.u, centre(prob, start.graph, False), atol=1e-3, rtol=1e-3)


def test_without_reweighting_the_graph_is_the_task_s():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    start = diffused_start(task, Recipe(reweight_rounds=0), 0.05, known(volume), outvote=False)
    assert start.graph is task.graph
    prob = diffuse(task, task.graph, volume)
    torch.testing.assert_close(start.u, make_start(prob, task.graph, start.volume, task, "converged").u)


@pytest.mark.parametrize("rounds", [0, 2])
def test_volumes_are_asked_for_once_with_the_first_diffusion(rounds):
    task, asked = make_task(), []
    w = dense_adjacency(task.graph)
    posterior = VolumePosterior.given(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))

    def find_volume(x: torch.Tensor) -> VolumePosterior:
        asked.append(x)
        return posterior

    start = diffused_start(task, Recipe(reweight_rounds=rounds), 0.05, find_volume, outvote=False)
    (x,) = asked
    d = w.sum(axis=1)
    expected = np.linalg.inv(np.eye(15) - w / np.sqrt(np.outer(d, d)) / 1.05) @ task.sources.numpy()
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-2)
    assert start.volume is posterior
    v = dense_diffusion(w, task.sources.numpy(), 0.05, posterior.share.numpy())
    np.testing.assert_allclose(start.support.numpy(), v / v.sum(axis=1, keepdims=True), atol=2e-3)


def test_the_recipe_s_factor_scales_the_rate():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    one = diffused_start(task, Recipe(start_factor=2.0), 0.05, known(volume), outvote=False)
    other = diffused_start(task, Recipe(), 0.1, known(volume), outvote=False)
    torch.testing.assert_close(one.u, other.u)


def test_outvoted_labels_are_what_their_neighbours_say():
    task, volume = make_task(), torch.full((3,), 1 / 3, dtype=torch.float64)
    start = diffused_start(task, Recipe(reweight_rounds=0), 0.05, known(volume), outvote=True)
    w = dense_adjacency(task.graph)
    v = dense_diffusion(w, task.sources.numpy(), 0.05, volume.numpy())
    prob = v / v.sum(axis=1, keepdims=True)
    prob[:4] = (w @ prob / w.sum(axis=1, keepdims=True))[:4]
    expected = centre(torch.from_numpy(prob), task.graph, False)
    np.testing.assert_allclose(start.u, expected, atol=2e-3 * float(task.graph.degree.max()))


def test_centred_functions_satisfy_what_the_propositions_ask_of_a_start():
    task = make_task()
    prob = torch.rand(15, 3, dtype=torch.float64)
    u = centre(prob / prob.sum(dim=1, keepdim=True), task.graph, multi_label=False)
    assert float(u.sum(dim=1).abs().max()) <= 1e-12
    assert float((task.graph.degree @ u).abs().max()) <= 1e-10
    assert float((task.graph.degree @ centre(prob, task.graph, multi_label=True)).abs().max()) <= 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("multi_label", [False, True])
def test_affinity_is_the_bhattacharyya_coefficient_with_and_without_compiled_code(multi_label, dtype, monkeypatch):
    graph, generator = random_graph(5, num_nodes=30), torch.Generator().manual_seed(0)
    prob = torch.rand(30, 11, generator=generator, dtype=dtype)
    prob = prob if multi_label else prob / prob.sum(dim=1, keepdim=True)
    one, other = prob[graph.edge_index].double()
    expected = (one * other).sqrt().sum(dim=1)
    if multi_label:
        expected = (expected + ((1 - one) * (1 - other)).sqrt().sum(dim=1)) / 11
    monkeypatch.setattr("tg_crepe.models.crepe.start._EDGES_AT_A_TIME", 17)
    for compiled in (True, False):
        monkeypatch.setattr("tg_crepe.models.crepe.start.available", lambda name, compiled=compiled: compiled)
        found = _affinity(prob, graph.edge_index, multi_label)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5, 7, 8, 12])
def test_powers_are_products_and_the_same_on_one_and_two_threads(exponent):
    x = torch.rand(70_013, generator=torch.Generator().manual_seed(0)).clamp(min=1e-3)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(_whole_power(x, exponent))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    torch.testing.assert_close(found[0].double(), x.double() ** exponent, rtol=exponent * 1e-7, atol=0)
