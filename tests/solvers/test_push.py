"""The flow with evidence as a part of its linear term: what the propositions need still holds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import cluster_task, clusters, start_off_degree

from tg_crepe import RatioFlow
from tg_crepe.energy import Constraint, Coupling, LabelCoupling
from tg_crepe.inference.evidence import evidence_push


def made_push(seed: int = 0, multi_label: bool = False):
    task, _ = cluster_task((3, 3, 3))
    rng = np.random.default_rng(seed)
    prob = rng.random((task.graph.num_nodes, 3)) if multi_label else rng.dirichlet(np.ones(3), task.graph.num_nodes)
    task = replace(task, evidence=torch.from_numpy(prob), multi_label=multi_label)
    return task, evidence_push(task, task.graph)


@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
def test_nothing_pushed_is_the_same_flow_to_the_bit(backend):
    graph, _ = clusters(0, num_nodes=60)
    u = start_off_degree(graph, 3)
    flow = RatioFlow("degree_median", [0.5, 1.0], backend=backend)
    plain, pushed = flow(u, graph, Coupling()), flow(u, graph, Coupling(), push=torch.zeros_like(u))
    assert torch.equal(plain.u, pushed.u)
    assert torch.equal(plain.dual, pushed.dual)


@pytest.mark.parametrize("seed", range(3))
def test_every_step_keeps_the_constraints_and_its_certificate(seed):
    task, push = made_push(seed)
    graph = task.graph
    flow = RatioFlow("degree_median", [0.5, 1.0, 2.0], gap_tol=1e-8, max_inner_iterations=20_000)
    result = flow(start_off_degree(graph, 3), graph, Coupling(), push=push)
    assert result.status == "converged"
    gap, energy = result.trace["gap"][1:], result.trace["energy"].sum(dim=1)[:-1]
    assert bool((gap >= -1e-12).all())
    assert bool((gap <= 1e-8 * energy + 1e-12).all())
    torch.testing.assert_close(result.u.sum(dim=1), torch.zeros(len(result.u), dtype=torch.float64), atol=1e-9, rtol=0)
    along = result.u.t() @ graph.degree.double()
    torch.testing.assert_close(along, torch.zeros(3, dtype=torch.float64), atol=1e-7, rtol=0)


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_flow_goes_where_it_is_pushed(multi_label):
    task, push = made_push(multi_label=multi_label)
    constraint = Constraint() if multi_label else LabelCoupling(task.y, 1.0)
    u = start_off_degree(task.graph, 3, coupled=not multi_label)
    flow = RatioFlow("degree_median", [1.0], gap_tol=1e-8, max_inner_iterations=20_000)
    along = [float((flow(u, task.graph, constraint, push=size * push).u * push).sum()) for size in (0.0, 1.0, 3.0)]
    assert along[0] < along[1] < along[2]


def test_weights_scaled_by_a_constant_give_the_same_flow():
    task, push = made_push()
    scaled = task.graph.with_weight(1000 * task.graph.edge_weight)
    flow = RatioFlow("degree_median", [0.5, 1.0])
    u = start_off_degree(task.graph, 3)
    one, other = (flow(u, graph, Coupling(), push=push) for graph in (task.graph, scaled))
    torch.testing.assert_close(one.u, other.u, atol=1e-11, rtol=0)
