"""A prepared graph is the same graph: every model gives the same bits on it, and nothing of a label stays in it."""

import numpy as np
import pytest
import torch
from helpers import clusters

from tg_crepe import GraphWarning, get_energy_model, graph_report, prepare
from tg_crepe.active import LabelLoop, label_next
from tg_crepe.graph import PreparedGraph
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.models.registry import ENERGY_MODELS


def problem(seed=0, islands=False):
    graph, y = clusters(seed, num_nodes=90)
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = torch.cat([graph.edge_weight, graph.edge_weight]).float()
    if islands:  # two more nodes that no label reaches, and one without an edge
        edge_index = torch.cat([edge_index, torch.tensor([[90, 91], [91, 90]])], dim=1)
        weight = torch.cat([weight, torch.ones(2)])
        y = torch.cat([y, y.new_zeros(3)])
    return edge_index, weight, y


def labels(y, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for c in range(3):
        members = (y[:90] == c).nonzero().view(-1)
        mask[members[torch.randperm(len(members), generator=generator)[:count]]] = True
    return mask


def same(one, other):
    for name in ("u", "label", "prob", "certainty", "reached", "pseudo_mask"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert one.expected_error == other.expected_error
    assert one.status == other.status


@pytest.mark.parametrize("islands", [False, True])
@pytest.mark.parametrize("name", sorted(ENERGY_MODELS))
@pytest.mark.filterwarnings("ignore::tg_crepe.GraphWarning")
def test_every_model_gives_the_same_bits_on_a_prepared_graph(name, islands):
    edge_index, weight, y = problem(islands=islands)
    model, graph = get_energy_model(name), prepare(edge_index, weight, len(y))
    for count in (1, 3, 2):  # the second and third call find what the first has left
        mask = labels(y, count, seed=count)
        same(model.propagate(y, graph, mask), model.propagate(y, edge_index, mask, weight))


def test_a_large_graph_is_ordered_once_and_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr("tg_crepe.graph.canonical._WORTHWHILE", 1)
    edge_index, weight, y = problem()
    graph, mask = prepare(edge_index, weight, len(y)), labels(y, 3)
    monkeypatch.setattr(CanonicalGraph, "local_order", lambda self: pytest.fail("ordered again"))
    found = get_energy_model("crepe").propagate(y, graph, mask)
    monkeypatch.undo()
    monkeypatch.setattr("tg_crepe.graph.canonical._WORTHWHILE", 1)
    same(found, get_energy_model("crepe").propagate(y, edge_index, mask, weight))


def test_findings_and_evidence_give_the_same_bits_on_a_prepared_graph():
    edge_index, weight, y = problem()
    findings = torch.stack([y == 0, y == 1], dim=1).long()
    mask, prior = labels(y, 4), torch.rand(len(y), 3, generator=torch.Generator().manual_seed(0))
    graph, model = prepare(edge_index, weight), get_energy_model("crepe", prior_trust=0.5)
    same(model.propagate(findings, graph, mask), model.propagate(findings, edge_index, mask, weight))
    same(model.propagate(y, graph, mask, prior=prior), model.propagate(y, edge_index, mask, weight, prior=prior))


@pytest.mark.filterwarnings("ignore::tg_crepe.GraphWarning")
def test_labels_that_reach_other_components_make_another_part():
    edge_index, weight, y = problem(islands=True)
    graph, model = prepare(edge_index, weight, len(y)), get_energy_model("lgc")
    far = labels(y, 2)
    far[90] = True
    for mask in (labels(y, 2), far, labels(y, 2)):
        same(model.propagate(y, graph, mask), model.propagate(y, edge_index, mask, weight))


def test_repairs_are_told_once_and_kept():
    edge_index, weight, y = problem()
    edge_index = torch.cat([edge_index, torch.tensor([[3], [3]])], dim=1)
    weight = torch.cat([weight, torch.ones(1)])
    with pytest.warns(GraphWarning, match=r"repaired: 1 self-loop"):
        graph = prepare(edge_index, weight)
    get_energy_model("lgc").propagate(y, graph, labels(y, 2))  # a warning would be an error
    assert "1 self-loop(s) dropped" in graph_report(graph, None, labels(y, 2)).repairs


def test_a_prepared_graph_shares_no_memory_with_its_input():
    edge_index, weight, y = problem()
    graph, mask, model = prepare(edge_index, weight), labels(y, 2), get_energy_model("lgc")
    before = model.propagate(y, graph, mask)
    edge_index.zero_(), weight.zero_()
    same(model.propagate(y, graph, mask), before)


def test_preparing_twice_and_numpy_arrays_are_fine():
    edge_index, weight, y = problem()
    graph = prepare(edge_index.numpy(), weight.numpy())
    assert prepare(graph) is graph
    same(
        get_energy_model("lgc").propagate(y, graph, labels(y, 2)),
        get_energy_model("lgc").propagate(np.asarray(y), edge_index, labels(y, 2), weight),
    )


def test_other_functions_take_a_prepared_graph():
    edge_index, weight, y = problem()
    graph, mask = prepare(edge_index, weight), labels(y, 2)
    assert graph_report(graph, None, mask, y) == graph_report(edge_index, weight, mask, y)
    prob = get_energy_model("lgc").propagate(y, graph, mask).prob
    assert torch.equal(label_next(prob, mask, graph, n=5), label_next(prob, mask, edge_index, weight, n=5))


def test_the_label_loop_prepares_its_graph_and_takes_a_prepared_one():
    edge_index, weight, y = problem()
    loops = [LabelLoop(y, edge_index, labels(y, 1), weight), LabelLoop(y, prepare(edge_index, weight), labels(y, 1))]
    for loop in loops:
        nodes = loop.suggest(5)
        loop.answer(nodes, y[nodes])
        assert isinstance(loop.graph, PreparedGraph)
    same(loops[0].result, loops[1].result)


def test_another_graph_than_the_prepared_one_is_an_error():
    edge_index, weight, y = problem()
    graph, mask = prepare(edge_index, weight), labels(y, 2)
    with pytest.raises(ValueError, match="'edge_weight' must be None with a prepared graph"):
        get_energy_model("lgc").propagate(y, graph, mask, weight)
    with pytest.raises(ValueError, match="as many nodes as asked for, 89"):
        get_energy_model("lgc").propagate(y[:89], graph, mask[:89])
    with pytest.raises(ValueError, match="'symmetrize' must be that of the prepared graph, 'max', got 'mean'"):
        get_energy_model("lgc", symmetrize="mean").propagate(y, graph, mask)
    with pytest.raises(ValueError, match="'symmetrize' must be"):
        prepare(edge_index, weight, symmetrize="median")


def test_a_graph_without_an_edge_can_be_prepared():
    y, mask = torch.tensor([0, 1, -1]), torch.tensor([True, True, False])
    graph = prepare(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    with pytest.warns(GraphWarning):
        assert get_energy_model("lgc").propagate(y, graph, mask).label.tolist() == [0, 1, -1]
