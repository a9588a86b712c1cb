import math

import pytest
import torch
from helpers import clusters, moons, random_graph, start_off_degree

from tg_crepe import RatioFlow
from tg_crepe.energy import Coupling, LabelCoupling, get_normaliser
from tg_crepe.graph import CanonicalGraph, canonical_graph


def test_trace_has_a_row_for_the_start_and_one_per_step():
    graph, _ = clusters(0, num_nodes=60)
    result = RatioFlow("l1", [0.5, 1.0, 2.0], inner_iterations=5)(start_off_degree(graph, 3), graph, Coupling())
    trace = result.trace
    assert trace["step"].tolist() == [0, 1, 2, 3]
    assert trace["energy"].shape == trace["norm"].shape == trace["ratio"].shape == (4, 3)
    torch.testing.assert_close(trace["sum_of_ratios"], trace["ratio"].sum(dim=1))
    assert set(trace) >= {
        "change",
        "gap",
        "inner_iterations",
        "degree_violation",
        "coupling_violation",
        "margin_violation",
    }
    assert math.isnan(float(trace["gap"][0]))
    assert result.status == "converged"  # a clock that ran to its end
    assert float(result.u.norm()) == pytest.approx(1)


def test_step_limit_and_convergence_are_told_apart():
    graph, _ = moons(0, num_nodes=80)
    u = start_off_degree(graph, 1, coupled=False)
    assert RatioFlow("l1", 5.0, max_steps=2)(u, graph).status == "step_limit"
    assert RatioFlow("l1", 5.0, max_steps=500)(u, graph).status == "converged"


def test_separated_components_have_converged_at_once():
    # Two triangles: u ∝ d on each has no energy at all.
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    graph, _ = canonical_graph(edge_index, torch.ones(6, dtype=torch.float64))
    u = graph.degree.unsqueeze(-1) * torch.tensor([1.0, 1, 1, -1, -1, -1], dtype=torch.float64).unsqueeze(-1)
    result = RatioFlow("degree_median", 1.0)(u, graph)
    assert result.status == "converged"
    assert len(result.trace) == 1
    torch.testing.assert_close(result.u, u / u.norm())


def test_a_vanished_class_does_not_break_the_others():
    graph, _ = clusters(0, num_nodes=60)
    u = start_off_degree(graph, 2)
    u = torch.cat([u, torch.zeros(60, 1, dtype=torch.float64)], dim=1)
    for name in ("l1", "l2", "median", "degree_median", "degree_quantile"):
        function = get_normaliser(name, num_classes=3)
        result = RatioFlow(function, 1.0, max_steps=3)(u, graph, Coupling())
        assert bool(torch.isfinite(result.u).all())
        assert float(result.trace["ratio"][0, 2]) == 0


@pytest.mark.parametrize("relative", [True, False])
def test_units_of_the_step(relative):
    """In units of the mean |u|, the step follows the size of u; otherwise it is taken as it is."""
    graph = random_graph(0)
    u = start_off_degree(graph, 3)
    scale = float(u.abs().mean())
    one = RatioFlow("l1", [1.0 if relative else scale], relative=relative)(u, graph, Coupling())
    other = RatioFlow("l1", [scale], relative=False)(u, graph, Coupling())
    assert torch.equal(one.u, other.u)


def test_weights_scaled_by_a_constant_give_the_same_flow():
    graph = random_graph(1)
    scaled = graph.with_weight(1000 * graph.edge_weight)
    y = torch.full((12,), -1)
    y[:3] = torch.arange(3)
    flow = RatioFlow("degree_median", [0.5, 1.0])
    one, other = (flow(start_off_degree(graph, 3), g, LabelCoupling(y, 1.0)) for g in (graph, scaled))
    torch.testing.assert_close(one.u, other.u, atol=1e-12, rtol=0)


def test_order_of_nodes_and_classes_only_permutes_the_flow():
    graph, _ = clusters(2, num_nodes=60)
    u = start_off_degree(graph, 3)
    y = torch.full((60,), -1)
    y[:3] = torch.arange(3)
    generator = torch.Generator().manual_seed(0)
    nodes, classes = torch.randperm(60, generator=generator), torch.tensor([2, 0, 1])
    place = torch.empty(60, dtype=torch.long).index_put_((nodes,), torch.arange(60))  # new number of an old node
    moved, _ = canonical_graph(
        torch.cat([place[graph.edge_index], place[graph.edge_index].flip(0)], dim=1),
        torch.cat([graph.edge_weight, graph.edge_weight]),
        60,
    )
    flow = RatioFlow("l1", [0.5, 1.0])
    one = flow(u, graph, LabelCoupling(y, 1.0))
    renamed = torch.where(y >= 0, torch.argsort(classes)[y.clamp(min=0)], -1)
    other = flow(u[nodes][:, classes], moved, LabelCoupling(renamed[nodes], 1.0))
    torch.testing.assert_close(other.u, one.u[nodes][:, classes], atol=1e-10, rtol=0)


def test_the_first_row_of_the_trace_has_the_margin_in_the_unit_of_the_flow():
    graph, _ = clusters(0, num_nodes=60)
    y = torch.full((60,), -1)
    y[:3] = torch.arange(3)
    u = start_off_degree(graph, 3)
    result = RatioFlow("l1", [0.5], eps=2.0)(u, graph, LabelCoupling(y, 123.0))
    here = LabelCoupling(y, 2.0 * float(u.abs().mean()))
    torch.testing.assert_close(result.trace["margin_violation"][0], here.margin_violation(u))


def test_same_call_same_bits_and_inputs_untouched():
    graph, _ = moons(0, num_nodes=80)
    u = 3 * start_off_degree(graph, 1, coupled=False)
    before, weight = u.clone(), graph.edge_weight.clone()
    flow = RatioFlow("degree_median", 1.0, max_steps=5)
    assert torch.equal(flow(u, graph).u, flow(u, graph).u)
    assert torch.equal(u, before)
    assert torch.equal(graph.edge_weight, weight)


def test_number_of_threads_changes_nothing_but_rounding():
    graph, _ = moons(0, num_nodes=300)
    u = start_off_degree(graph, 1, coupled=False)
    flow, threads = RatioFlow("degree_median", 1.0, max_steps=5), torch.get_num_threads()
    found = []
    for number in (1, 2):
        torch.set_num_threads(number)
        found.append(flow(u, graph).u)
    torch.set_num_threads(threads)
    torch.testing.assert_close(*found, atol=1e-12, rtol=0)


def test_a_step_that_finds_no_descent_ends_the_flow():
    """At a fixed point nothing is accepted beyond rounding, and the flow says that it has converged."""
    graph, _ = moons(0, num_nodes=80)
    flow = RatioFlow("degree_median", 20.0, max_steps=300, tol=1e-10)
    first = flow(start_off_degree(graph, 1, coupled=False), graph)
    again = flow(first.u, graph)
    assert first.status == again.status == "converged"
    torch.testing.assert_close(again.u, first.u, atol=1e-6, rtol=0)


def test_flow_in_single_precision_follows_the_double_one():
    graph, _ = clusters(0, num_nodes=60)
    single = CanonicalGraph(graph.edge_index, graph.edge_weight.float(), 60)
    u = start_off_degree(graph, 3)
    flow = RatioFlow("degree_median", [0.5, 1.0])
    one, other = flow(u, graph, Coupling()), flow(u.float(), single, Coupling())
    assert other.u.dtype == torch.float32
    torch.testing.assert_close(other.u.double(), one.u, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_step": 0}, "'time_step' must be a finite number > 0, got 0"),
        ({"time_step": [1.0, -1.0]}, "'time_step' must be a finite number > 0, got -1.0"),
        ({"time_step": math.nan}, "'time_step' must be"),
        ({"time_step": []}, "'time_step' must be a number or hold at least one step"),
        ({"eps": -0.1}, "'eps' must be a finite number > 0, got -0.1"),
        ({"max_steps": -1}, "'max_steps' must be an integer >= 0"),
        ({"tol": 0}, "'tol' must be"),
        ({"inner_iterations": 0}, "'inner_iterations' must be"),
        ({"max_inner_iterations": 5}, "'max_inner_iterations' must be an integer >= 20"),
        ({"gap_tol": 0}, "'gap_tol' must be"),
        ({"normaliser": "l3"}, "'normaliser' must be one of 'l1'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RatioFlow(**options)


def test_patience_ends_a_flow_whose_labels_stand_still():
    graph, _ = clusters(0, num_nodes=60)
    u = start_off_degree(graph, 3)
    whole = RatioFlow("degree_median", 1.0, tol=1e-12, max_steps=60)(u, graph, Coupling())
    early = RatioFlow("degree_median", 1.0, tol=1e-12, max_steps=60, patience=3)(u, graph, Coupling())
    assert early.status == "converged"
    assert 3 < len(early.trace) < len(whole.trace)
    assert torch.equal(early.u.argmax(dim=1), whole.u.argmax(dim=1))


def test_patience_is_checked():
    with pytest.raises(ValueError, match="'patience' must be"):
        RatioFlow(patience=0)
