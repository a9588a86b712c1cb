from __future__ import annotations

import warnings

import pytest
import torch

from tg_crepe import LGC, CrepePropagation, GraphWarning, Recipe, knn_graph
from tg_crepe.active import label_next
from tg_crepe.runs.kept_nodes import moment_fields, nodes_with_image, nodes_with_moments, suggest_nodes
from tg_crepe.solvers import FlowObserver


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


def test_moments_are_those_of_the_one_flow(task):
    y, graph = task
    seen = []

    class Watch(FlowObserver):
        def on_step(self, state):
            seen.append((state.progress, state.u.clone()))

    nodes = nodes_with_moments(80)
    with pytest.warns(GraphWarning, match="10 node"):
        result = CrepePropagation(Recipe(balancing_rounds=0)).propagate(
            y, graph[0], None, graph[1], observers=(Watch(),), snapshot_nodes=nodes
        )
    moments = result.moments
    assert moments.node.tolist() == list(range(70))  # the island takes no part
    assert moments.time.tolist() == pytest.approx([1.5**-3, 1.5**-2, 1.0])
    assert len(seen) == 6
    for time, u in zip(moments.time.tolist(), moments.u, strict=True):
        at = min(seen, key=lambda moment: abs(moment[0] - time))[1]
        torch.testing.assert_close(u, (at / at.abs().mean()).half())
    torch.testing.assert_close(u, (result.u[:70] / result.u[:70].abs().mean()).half())
    fields = moment_fields(moments)
    assert {name: field.shape for name, field in fields.items()} == {
        "flow_node": (70,),
        "flow_time": (3,),
        "flow_u": (3, 70, 2),
    }


@pytest.mark.parametrize("model", [LGC(), CrepePropagation.paper()])
def test_what_has_no_known_length_has_no_moments(task, model):
    y, graph = task
    with pytest.warns(GraphWarning):
        result = model.propagate(y, graph[0], None, graph[1], snapshot_nodes=torch.arange(80))
    assert result.moments is None
    assert moment_fields(result.moments) == {}


def test_every_suggestion_has_an_image(task):
    result = solve(task, CrepePropagation())
    suggested = suggest_nodes(result.prob.numpy(), (task[0] >= 0).numpy(), (*task[1], 80), multi_label=False)
    assert suggested.tolist() == label_next(result.prob.double(), task[0] >= 0, *task[1], n=16).tolist()
    few = torch.tensor([3, 12_345, 69_999])
    node = nodes_with_image(70_000, few)
    assert set(few.tolist()) <= set(node.tolist())
    assert len(node) == len(node.unique()) <= 503
    assert len(nodes_with_image(70_000)) == 500
    assert nodes_with_image(7, torch.tensor([5])).tolist() == list(range(7))
