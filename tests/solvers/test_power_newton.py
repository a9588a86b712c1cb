"""Newton's method for powers of differences: its gap, descent and balance."""

import numpy as np
import pytest
import torch
from helpers import clusters, moons, random_graph
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.graph import CanonicalGraph
from tg_crepe.solvers.power_energy import PowerEnergy
from tg_crepe.solvers.power_newton import _powers, minimise_power

POWERS = [1.2, 1.5, 2.0, 3.0, 6.0, 10.0]


def signs(num_nodes: int, num_classes: int, per_class: int, seed: int) -> torch.Tensor:
    """A few labelled nodes of every class as 1 and −1, zeros elsewhere."""
    chosen = np.random.default_rng(seed).choice(num_nodes, num_classes * per_class, replace=False)
    sign = torch.zeros(num_nodes, num_classes, dtype=torch.float64)
    sign[chosen] = 2 * torch.eye(num_classes, dtype=torch.float64)[np.arange(chosen.size) % num_classes] - 1
    return sign


def plain_energy(graph: CanonicalGraph, u: torch.Tensor, p: float) -> torch.Tensor:
    first, second = graph.edge_index
    return (graph.edge_weight.double().unsqueeze(-1) * (u[first] - u[second]).abs().pow(p)).sum(dim=0) / p


@pytest.mark.parametrize("p", POWERS)
def test_energy_and_gradient_are_those_of_automatic_differentiation(p):
    graph, sign = random_graph(0, num_nodes=15), signs(15, 3, 1, seed=0)
    u = torch.rand(15, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    energy = PowerEnergy(graph, sign == 0, p, u.detach(), tol=1e-12)
    plain = plain_energy(graph, u, p)
    plain.sum().backward()
    point = energy.evaluate(u.detach())
    torch.testing.assert_close(energy.in_units_of_u(point.energy), plain.detach())
    expected = torch.where(sign == 0, u.grad, 0.0)
    torch.testing.assert_close(energy.in_units_of_u(point.gradient), expected, atol=1e-10, rtol=1e-6)


@pytest.mark.parametrize("p", POWERS)
def test_curvature_is_the_second_derivative_across_an_edge(p):
    graph = CanonicalGraph(torch.tensor([[0, 0], [1, 2]]), torch.tensor([2.0, 0.5], dtype=torch.float64), 3)
    u = torch.tensor([[0.0], [0.3], [0.9]], dtype=torch.float64)
    energy = PowerEnergy(graph, torch.ones(3, 1, dtype=torch.bool), p, u, tol=1e-8)
    stiffness = graph.edge_weight * torch.tensor([0.3, 0.9], dtype=torch.float64).pow(p - 2)
    for careful, expected in ((False, (p - 1) * stiffness), (True, stiffness)):
        found = energy.curvature(u, torch.tensor([careful])).view(-1)
        torch.testing.assert_close(energy.in_units_of_u(found), expected)


@pytest.mark.parametrize("p", POWERS)
@given(seed=st.integers(0, 10_000))
def test_the_gap_bounds_the_distance_to_the_optimum(p, seed):
    graph, sign = random_graph(seed, num_nodes=12), signs(12, 2, 2, seed)
    best = plain_energy(graph, minimise_power(graph, sign, p, 1e-7, 500).u, p)
    noise = torch.rand(12, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    u = torch.where(sign == 0, noise, (sign + 1) / 2)
    energy = PowerEnergy(graph, sign == 0, p, u, tol=1e-3)
    point = energy.evaluate(u)
    smoothed = energy.in_units_of_u(point.energy)
    plain = plain_energy(graph, u, p)
    assert (smoothed >= plain * (1 - 1e-12)).all()
    assert (smoothed <= plain * (1 + 1e-3)).all()
    assert (smoothed * (1 - point.gap) <= best * (1 + 1e-6)).all()


@pytest.mark.parametrize("p", [1.05, *POWERS, 20.0])
@pytest.mark.parametrize("make", [moons, clusters])
def test_it_converges_without_the_energy_ever_rising(make, p):
    graph = make(1)[0]
    sign = signs(graph.num_nodes, 3, 2, seed=1)
    result = minimise_power(graph, sign, p, 1e-4, 500)
    trace = result.trace
    assert result.status == "converged"
    assert float(trace["gap"][-1]) <= 1e-4
    assert float(trace["residual"][-1]) <= 1e-4
    same = trace["p"][1:] == trace["p"][:-1]
    assert (trace["energy"][1:][same] <= trace["energy"][:-1][same] * (1 + 1e-12)).all()
    assert trace["p"][[0, -1]].tolist() == [2, p]
    assert trace["step"].tolist()[-1] == int(same.sum())
    assert torch.equal(result.u[sign != 0], (sign[sign != 0] + 1) / 2)


@pytest.mark.parametrize("p", [2.0, 3.0, 6.0, 10.0])
def test_what_flows_into_a_node_flows_out(p):
    graph, sign = clusters(0)[0], signs(150, 3, 3, seed=0)
    u = minimise_power(graph, sign, p, 1e-5, 500).u
    first, second = graph.edge_index
    difference = u[first] - u[second]
    flow = graph.edge_weight.unsqueeze(-1) * difference.abs().pow(p - 1) * difference.sign()
    balance, through = torch.zeros(2, 150, 3, dtype=torch.float64)
    balance.index_add_(0, first, flow).index_add_(0, second, -flow)
    through.index_add_(0, first, flow.abs()).index_add_(0, second, flow.abs())
    assert float((balance.abs() / through)[sign == 0].max()) < 1e-5


def test_limits_and_rounding_are_told():
    graph, sign = moons(1)[0], signs(300, 2, 1, seed=1)
    short = minimise_power(graph, sign, 3.0, 1e-6, 2)
    assert short.status == "step_limit"
    assert len(short.trace) - 1 <= 3  # two steps and the start of the next power
    assert minimise_power(graph, sign, 2.0, 1e-14, 500).status == "stalled"


def test_columns_without_any_difference_are_constant():
    # Two separate triangles, a class each.
    edge_index = torch.tensor([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]])
    graph = CanonicalGraph(edge_index, torch.ones(6, dtype=torch.float64), 6)
    sign = torch.zeros(6, 2, dtype=torch.float64)
    sign[0], sign[3] = torch.tensor([1, -1]), torch.tensor([-1, 1])
    for p in (1.2, 2.0, 5.0):
        result = minimise_power(graph, sign, p, 1e-6, 100)
        assert result.status == "converged"
        expected = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, dtype=torch.float64)
        torch.testing.assert_close(result.u, expected, atol=1e-8, rtol=0)


def test_powers_lead_from_two_to_p():
    assert _powers(2) == [2]
    assert _powers(3) == [2, 3]
    assert _powers(6) == [2, 3, 4.5, 6]
    assert _powers(2.2) == [2, 2.2]
    np.testing.assert_allclose(_powers(1.4), [2, 5 / 3, 1 + 4 / 9, 1.4])
