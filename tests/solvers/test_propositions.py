"""The propositions of the paper, item by item, along trajectories in double precision solved to a tight gap."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from helpers import clusters, moons, random_graph, start_off_degree

from tg_crepe import GraphGradient, RatioFlow
from tg_crepe.energy import (
    Constraint,
    Coupling,
    LabelCoupling,
    along_degree,
    get_normaliser,
    ratio,
    total_variation,
)
from tg_crepe.graph import CanonicalGraph

GRAPHS = {
    "moons": lambda: moons(3, num_nodes=100)[0],
    "random": lambda: random_graph(5, num_nodes=20),
    "clusters": lambda: clusters(1, num_nodes=90)[0],
}
STEPS, TIME_STEP, GAP = 6, 0.05, 1e-11
#: How much a quantity may miss its inequality: ‖u − u*‖² ≤ 2 δt gap.
SLACK = 1e-6

BINARY = [(g, h) for g in GRAPHS for h in ("l1", "degree_median")] + [("random", "l2"), ("random", "median")]
MULTI = [(g, h) for g in GRAPHS for h in ("l1", "degree_quantile")]


@dataclass
class Trajectory:
    """The iterates u_k, the half steps u_{k+1/2}, and J, H, R, q − q̃ and the dual at each."""

    graph: CanonicalGraph
    u: list[torch.Tensor]
    half: list[torch.Tensor]
    ratio: list[torch.Tensor]
    norm: list[torch.Tensor]
    q: list[torch.Tensor]
    dual: list[torch.Tensor]
    gap: list[float]


@cache
def trajectory(graph_name: str, normaliser: str, num_classes: int) -> Trajectory:
    graph = GRAPHS[graph_name]()
    constraint = Constraint() if num_classes == 1 else Coupling()
    function = get_normaliser(normaliser, num_classes=num_classes)
    options = {"relative": False, "max_steps": 1, "tol": 1e-300, "gap_tol": GAP, "max_inner_iterations": 30_000}
    # The reference has one row of the dual per edge, which is read below where there is one class.
    flow = RatioFlow(function, TIME_STEP, backend="reference" if num_classes == 1 else "auto", **options)
    u = start_off_degree(graph, num_classes, coupled=num_classes > 1)
    found = Trajectory(graph, [], [], [], [], [], [], [])
    dual = None
    for step in range(STEPS + 1):
        norm, q = function(u, graph.degree)
        found.u.append(u)
        found.norm.append(norm)
        found.ratio.append(ratio(total_variation(u, graph), norm))
        found.q.append(q - along_degree(q, graph.degree))
        if step < STEPS:
            result = flow(u, graph, constraint, dual)
            assert result.status == "step_limit"
            u, dual = result.u, result.dual
            found.half.append(u * result.trace["half_norm"][-1])
            found.gap.append(float(result.trace["gap"][-1]))
            found.dual.append(dual)
    return found


def subgradient(graph: CanonicalGraph, dual: torch.Tensor) -> torch.Tensor:
    return GraphGradient().adjoint(dual, graph.edge_index, graph.edge_weight, graph.degree)


@pytest.mark.parametrize("graph_name", GRAPHS)
def test_proposition_1_every_subgradient_is_orthogonal_to_the_degree(graph_name):
    graph = GRAPHS[graph_name]()
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        dual = 2 * torch.rand(graph.num_edges, 3, generator=generator, dtype=torch.float64) - 1
        assert float((graph.degree @ subgradient(graph, dual)).abs().max()) <= 1e-12 * float(graph.degree.sum())


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_1_holds_for_the_duals_of_a_flow(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 1)
    for dual, half in zip(path.dual, path.half, strict=True):
        phi = subgradient(path.graph, dual)
        assert float(dual.abs().max()) <= 1
        assert abs(float(path.graph.degree @ phi)) <= 1e-12 * float(path.graph.degree.sum())
        # It is a subgradient at the half step: J(u) = ⟨φ, u⟩.
        assert float((phi * half).sum()) == pytest.approx(float(total_variation(half, path.graph).sum()), rel=1e-5)


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_2_1_iterates_stay_orthogonal_to_the_degree(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 1)
    for u in path.u:
        assert abs(float(path.graph.degree @ u)) <= 1e-11 * float(path.graph.degree.norm())


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_2_2_norm_does_not_shrink(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 1)
    for half, before in zip(path.half, path.u, strict=False):
        assert float(half.norm()) >= float(before.norm()) - SLACK


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_2_3_ratio_does_not_increase(graph_name, normaliser):
    ratios = torch.cat(trajectory(graph_name, normaliser, 1).ratio)
    assert bool((ratios.diff() <= 1e-12).all())
    assert float(ratios[-1]) < 0.9 * float(ratios[0])  # and it does fall


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_2_4_half_step_is_bounded(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 1)
    for half, value, q in zip(path.half, path.ratio, path.q, strict=False):
        # The proof's bound of the norm; ‖φ‖ ≤ √n because every column of |K| sums to 1.
        kappa = 1 + TIME_STEP * (float(value) * float(q.norm()) + path.graph.num_nodes**0.5)
        assert float(half.norm()) <= kappa


@pytest.mark.parametrize(("graph_name", "normaliser"), BINARY)
def test_proposition_3_steps_are_summable(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 1)
    function = get_normaliser(normaliser)
    total = 0.0
    for k in range(STEPS):
        step = float((path.u[k + 1] - path.u[k]).square().sum())
        weight = 1 / (2 * TIME_STEP * float(function(path.half[k], path.graph.degree)[0]))
        # Each term is at most the fall of the ratio (eq. `tosum`) …
        assert weight * step <= float(path.ratio[k] - path.ratio[k + 1]) + SLACK
        total += weight * step
    assert total <= float(path.ratio[0])  # … so their sum is at most R(u_0), not H(u_0) as printed


@pytest.mark.parametrize("normaliser", ["l1", "median", "degree_median"])
def test_proposition_3_flow_converges_to_a_point_with_both_signs(normaliser):
    graph, _ = moons(1, num_nodes=120)
    u = start_off_degree(graph, 1, seed=2, coupled=False)
    result = RatioFlow(normaliser, time_step=5.0, max_steps=200, tol=1e-6)(u, graph)
    assert result.status == "converged"
    assert float(result.trace["change"][-1]) <= 1e-3 * float(result.trace["change"][1])
    assert float(result.u.min()) < 0 < float(result.u.max())
    assert bool((result.trace["ratio"][:, 0].diff() <= 1e-12).all())


@pytest.mark.parametrize(("graph_name", "normaliser"), MULTI)
def test_proposition_4_1_every_class_stays_orthogonal_to_the_degree(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 3)
    for u in path.u:
        assert float((path.graph.degree @ u).abs().max()) <= 1e-11 * float(path.graph.degree.norm())
        assert float(u.sum(dim=1).abs().max()) <= 1e-12


@pytest.mark.parametrize(("graph_name", "normaliser"), MULTI)
def test_proposition_4_2_norm_does_not_shrink_and_is_bounded(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 3)
    for k, half in enumerate(path.half):
        bound = (path.ratio[k] * path.q[k].norm(dim=0)).sum() + 3 * path.graph.num_nodes**0.5
        assert float(path.u[k].norm()) - SLACK <= float(half.norm()) <= 1 + TIME_STEP * float(bound)


@pytest.mark.parametrize(("graph_name", "normaliser"), MULTI)
def test_proposition_4_3_weighted_ratios_decrease(graph_name, normaliser):
    path = trajectory(graph_name, normaliser, 3)
    for k in range(STEPS):
        fall = float((path.norm[k + 1] * (path.ratio[k + 1] - path.ratio[k])).sum())
        step = float((path.u[k + 1] - path.u[k]).square().sum())
        kappa = float(path.half[k].norm())  # the smallest that item 2 allows, hence the strongest claim
        assert fall <= -step / (2 * TIME_STEP * kappa) + SLACK
        assert fall < 0


@pytest.mark.parametrize(("graph_name", "normaliser"), MULTI)
def test_descent_needs_only_acceptance_not_an_exact_solve(graph_name, normaliser):
    """Point 3 of Proposition 4 without the step term, when every inner solve stops at the first acceptable point."""
    graph = GRAPHS[graph_name]()
    function = get_normaliser(normaliser, num_classes=3)
    flow = RatioFlow(function, TIME_STEP, relative=False, max_steps=8, tol=1e-300, inner_iterations=1)
    trace = flow(start_off_degree(graph, 3), graph, Coupling()).trace
    fall = (trace["norm"][1:] * trace["ratio"].diff(dim=0)).sum(dim=1)
    assert bool((fall <= 1e-12).all())
    assert int(trace["inner_iterations"].max()) < 1000
    assert float(trace["degree_violation"].max()) <= 1e-11 * float(graph.degree.norm())


@pytest.mark.parametrize("graph_name", GRAPHS)
def test_norm_growth_holds_for_the_lagrangian_minimiser_of_any_dual(graph_name):
    """Proposition 4.2 for u(z), however rough z is: only ⟨φ, u_k⟩ ≤ J(u_k) enters its proof."""
    path = trajectory(graph_name, "l1", 3)
    u, linear = path.u[0], path.ratio[0] * path.q[0]
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        dual = 2 * torch.rand(path.graph.num_edges, 3, generator=generator, dtype=torch.float64) - 1
        half = Coupling().project(u + TIME_STEP * (linear - subgradient(path.graph, dual)))
        assert float(half.norm()) >= float(u.norm()) - 1e-12


@pytest.mark.parametrize("normaliser", ["l1", "degree_quantile"])
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_with_label_priors_what_remains_true(graph_name, normaliser):
    graph = GRAPHS[graph_name]()
    y = torch.full((graph.num_nodes,), -1)
    y[np.random.default_rng(0).choice(graph.num_nodes, 6, replace=False)] = torch.arange(6) % 3
    constraint = LabelCoupling(y, 1.0)
    flow = RatioFlow(get_normaliser(normaliser, num_classes=3), 1.0, eps=1.0, max_steps=8, tol=1e-300, gap_tol=1e-9)
    result = flow(start_off_degree(graph, 3), graph, constraint)
    trace = result.trace
    assert float(trace["coupling_violation"].max()) <= 1e-12  # Σ_l u = 0 at unlabelled nodes
    assert float(trace["margin_violation"][1:].max()) == 0  # u_half ∈ C, exactly
    assert bool((trace["gap"][1:] >= -1e-12 * trace["energy"][:-1].sum(dim=1)).all())
    # After the rescaling the margin is ε / ‖u_half‖: labels keep their sign, hence their class.
    assert torch.equal(result.u[y >= 0].argmax(dim=1), y[y >= 0])
    assert bool(((result.u[y >= 0] > 0).sum(dim=1) == 1).all())


def test_with_label_priors_orthogonality_is_lost():
    """Proposition 4.1 is a claim about flows without labels: with them ⟨u, d⟩ leaves zero."""
    graph = GRAPHS["random"]()
    y = torch.full((graph.num_nodes,), -1)
    y[:3] = torch.arange(3)
    trace = RatioFlow("l1", 1.0, max_steps=3, tol=1e-300)(
        start_off_degree(graph, 3), graph, LabelCoupling(y, 1.0)
    ).trace
    assert float(trace["degree_violation"][-1]) > 1e-3 * float(graph.degree.norm())
