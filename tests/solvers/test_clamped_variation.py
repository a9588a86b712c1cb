"""The clamped total variation against a linear programme solved by SciPy (HiGHS)."""

import numpy as np
import pytest
import torch
from helpers import clusters, moons, random_graph
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack, vstack

from tg_crepe.graph import CanonicalGraph
from tg_crepe.solvers.clamped_variation import minimise_variation, oscillating_variation


def signs(num_nodes: int, num_classes: int, per_class: int, seed: int) -> torch.Tensor:
    """A few labelled nodes of every class as 1 and −1, zeros elsewhere."""
    chosen = np.random.default_rng(seed).choice(num_nodes, num_classes * per_class, replace=False)
    sign = torch.zeros(num_nodes, num_classes, dtype=torch.float64)
    sign[chosen] = 2 * torch.eye(num_classes, dtype=torch.float64)[np.arange(chosen.size) % num_classes] - 1
    return sign


def smallest_cut(graph: CanonicalGraph, sign: torch.Tensor) -> float:
    """min Σ w_e t_e over (u, t) with |u_i − u_j| ≤ t_e and u held where it is known."""
    m, n = graph.num_edges, graph.num_nodes
    i, j = graph.edge_index.numpy()
    rows = np.arange(m)
    gradient = csr_matrix((np.r_[np.ones(m), -np.ones(m)], (np.r_[rows, rows], np.r_[i, j])), (m, n))
    weight = graph.edge_weight.double().numpy() / float(graph.edge_weight.max())  # HiGHS has absolute tolerances
    above = hstack([gradient, -eye(m)])
    below = hstack([-gradient, -eye(m)])
    bounds = [(float(s > 0), float(s >= 0)) for s in sign] + [(0, None)] * m
    result = linprog(np.r_[np.zeros(n), weight], vstack([above, below]), np.zeros(2 * m), bounds=bounds, method="highs")
    assert result.status == 0
    return result.fun * float(graph.edge_weight.max())


def problems() -> dict[str, tuple[CanonicalGraph, torch.Tensor]]:
    two_moons, three_clusters = moons(0, num_nodes=100)[0], clusters(0)[0]
    return {
        "random, 3 classes": (random_graph(0, num_nodes=30), signs(30, 3, 2, seed=0)),
        "random, 7 classes": (random_graph(1, num_nodes=40, density=0.2), signs(40, 7, 1, seed=1)),
        "moons, one label per class": (two_moons, signs(100, 2, 1, seed=2)),
        "moons, many labels": (two_moons, signs(100, 2, 20, seed=3)),
        "clusters": (three_clusters, signs(150, 3, 5, seed=4)),
        "heavy weights": (random_graph(2).with_weight(1e6 * random_graph(2).edge_weight), signs(12, 2, 1, seed=5)),
        "light weights": (random_graph(2).with_weight(1e-9 * random_graph(2).edge_weight), signs(12, 2, 1, seed=5)),
    }


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("name", problems())
def test_the_energy_is_that_of_a_linear_programme_and_the_bound_below_it(name, backend):
    graph, sign = problems()[name]
    result = minimise_variation(graph, sign, torch.full_like(sign, 0.5), 1e-9, 20_000, backend)
    assert result.status == "converged"
    for column in range(sign.size(1)):
        expected = smallest_cut(graph, sign[:, column])
        energy, bound = result.trace["energy"][:, column], result.trace["bound"][:, column]
        np.testing.assert_allclose(energy[-1], expected, rtol=1e-6)
        slack = 1e-9 * expected  # the linear programme has tolerances of its own
        assert (energy >= expected - slack).all()
        assert (bound <= expected + slack).all()
    assert float(result.u.min()) >= 0
    assert float(result.u.max()) <= 1
    assert torch.equal(result.u[sign != 0], (sign[sign != 0] + 1) / 2)


@given(seed=st.integers(0, 10_000))
def test_random_graphs_reach_the_optimum(seed):
    graph, sign = random_graph(seed, num_nodes=14), signs(14, 2, 2, seed)
    sign[:, 1] = torch.where(torch.arange(14) == seed % 14, -sign[:, 1], sign[:, 1])  # columns need not be exclusive
    result = minimise_variation(graph, sign, torch.zeros_like(sign), 1e-9, 50_000)
    assert result.status == "converged"
    for column in range(2):
        np.testing.assert_allclose(
            result.trace["energy"][-1, column], smallest_cut(graph, sign[:, column]), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_backends_take_the_same_steps(dtype):
    graph = moons(0, num_nodes=100)[0]
    graph = graph.with_weight(graph.edge_weight.to(dtype))
    sign = signs(100, 5, 1, seed=3).to(dtype)
    start = torch.rand(100, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    one, other = (minimise_variation(graph, sign, start, 1e-12, 57, backend) for backend in ("numba", "torch"))
    torch.testing.assert_close(one.u, other.u, atol=1e-5 if dtype == torch.float32 else 1e-12, rtol=0)
    for column in ("energy", "bound", "gap"):
        torch.testing.assert_close(one.trace[column], other.trace[column], rtol=1e-4, atol=1e-5)
    assert one.trace["step"].tolist() == [0, 20, 40, 57]
    assert one.status == other.status == "step_limit"
    assert one.u.dtype == dtype


def test_the_steps_satisfy_the_condition_of_convergence():
    graph = random_graph(5, num_nodes=20)
    (i, j), edges = graph.edge_index.numpy(), np.arange(graph.num_edges)
    weight, degree = graph.edge_weight.numpy(), graph.degree.numpy()
    gradient = np.zeros((graph.num_edges, 20))
    gradient[edges, i], gradient[edges, j] = weight, -weight

    def norm(primal_step: float, dual_step: float) -> float:
        return np.linalg.norm(np.sqrt(dual_step / weight)[:, None] * gradient * np.sqrt(primal_step / degree), 2)

    assert norm(5, 0.1) <= 1 + 1e-12
    assert norm(2, 0.5) > 1  # the published steps


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_an_energy_of_zero_is_found(backend):
    # Two separate triangles, a class each: nothing needs to be cut.
    edge_index = torch.tensor([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]])
    for dtype in (torch.float32, torch.float64):
        graph = CanonicalGraph(edge_index, torch.ones(6, dtype=dtype), 6)
        sign = torch.zeros(6, 2, dtype=dtype)
        sign[0], sign[3] = torch.tensor([1, -1]), torch.tensor([-1, 1])
        result = minimise_variation(graph, sign, torch.full_like(sign, 0.3), 1e-5, 10_000, backend)
        assert result.status == "converged"
        expected = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, dtype=dtype)
        torch.testing.assert_close(result.u, expected, atol=1e-5, rtol=0)


def test_all_known_needs_no_iteration():
    graph, sign = random_graph(0), signs(12, 2, 6, seed=0)
    result = minimise_variation(graph, sign, torch.zeros_like(sign), 1e-5, 1000)
    assert torch.equal(result.u, (sign + 1) / 2)
    assert result.status == "converged"


def test_the_published_iteration_oscillates():
    graph, sign = moons(0, num_nodes=100)[0], signs(100, 2, 10, seed=0)
    best = minimise_variation(graph, sign, torch.zeros_like(sign), 1e-9, 20_000)
    late = [float(oscillating_variation(graph, sign, steps).trace["energy"].sum()) for steps in (1000, 2000)]
    assert min(late) > 1.1 * float(best.trace["energy"][-1].sum())


def test_unknown_backends_are_refused():
    with pytest.raises(ValueError, match="'backend' must be one of 'auto', 'numba', 'torch', got 'cuda'"):
        minimise_variation(random_graph(0), signs(12, 2, 1, seed=0), torch.zeros(12, 2), 1e-5, 10, "cuda")
