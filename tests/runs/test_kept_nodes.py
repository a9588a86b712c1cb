from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from tg_crepe import LGC, CrepePropagation, GraphWarning, knn_graph
from tg_crepe.active import label_next
from tg_crepe.runs.kept_nodes import flow_moments, nodes_with_image, suggested_nodes


@pytest.fixture(scope="module")
def task():
    """Two clusters that touch, two labels, and an island that no label reaches."""
    generator = torch.Generator().manual_seed(100)
    kind = torch.arange(80) % 2
    x = torch.randn(80, 2, generator=generator) + 2.5 * torch.nn.functional.one_hot(kind, 2)
    x[70:] += 500
    graph = knn_graph(x, k=5, metric="euclidean")
    return torch.where(torch.arange(80) < 2, kind, -1), graph


def solve(task, model):
    y, graph = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return model.propagate(y, graph[0], None, graph[1])


def test_moments_are_flows_of_a_part_of_the_length(task):
    model = CrepePropagation()
    result = solve(task, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of the island nothing is said again
        moments = flow_moments(model, lambda part: part.propagate(task[0], task[1][0], None, task[1][1]), result.u)
    assert moments["flow_time"].tolist() == [0.25, 0.5, 1.0]
    assert moments["flow_node"].tolist() == list(range(80))
    for place, share in enumerate(moments["flow_time"]):
        u = solve(task, CrepePropagation(time=float(share) * model.time)).u
        np.testing.assert_allclose(moments["flow_u"][place], (u / u.abs().mean()).half().numpy(), rtol=2e-3, atol=1e-3)
    assert model.time == CrepePropagation().time


@pytest.mark.parametrize("model", [LGC(), CrepePropagation.paper()])
def test_what_has_no_clock_has_no_moments(task, model):
    assert flow_moments(model, lambda part: pytest.fail("nothing to solve"), torch.zeros(80, 2)) is None


def test_every_suggestion_has_an_image(task):
    result = solve(task, CrepePropagation())
    suggested = suggested_nodes(result.prob.numpy(), (task[0] >= 0).numpy(), (*task[1], 80), multi_label=False)
    assert suggested.tolist() == label_next(result.prob.double(), task[0] >= 0, *task[1], n=16).tolist()
    few = torch.tensor([3, 12_345, 69_999])
    node = nodes_with_image(70_000, few)
    assert set(few.tolist()) <= set(node.tolist())
    assert len(node) == len(node.unique()) <= 503
    assert len(nodes_with_image(70_000)) == 500
    assert nodes_with_image(7, torch.tensor([5])).tolist() == list(range(7))
