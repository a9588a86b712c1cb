import numpy as np
import pytest
import torch
from helpers import dense_gradient, random_graph
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import GraphGradient
from tg_crepe.energy.gradient import dual_step
from tg_crepe.graph import CanonicalGraph, canonical_graph


def messy_graph(seed: int) -> CanonicalGraph:
    """A random graph from one-way and repeated edges and loops, with isolated nodes left over."""
    rng = np.random.default_rng(seed)
    edge_index = torch.from_numpy(rng.integers(0, 9, (2, 25)))  # nodes 9, 10 and 11 stay isolated
    weight = torch.from_numpy(rng.uniform(0, 2, 25))
    return canonical_graph(edge_index, weight, num_nodes=12)[0]


def apply(graph: CanonicalGraph, u: torch.Tensor) -> torch.Tensor:
    return GraphGradient()(u, graph.edge_index, graph.edge_weight, graph.degree)


def apply_adjoint(graph: CanonicalGraph, z: torch.Tensor) -> torch.Tensor:
    return GraphGradient().adjoint(z, graph.edge_index, graph.edge_weight, graph.degree)


@pytest.mark.parametrize("make", [random_graph, messy_graph])
@given(seed=st.integers(0, 10_000), num_classes=st.integers(1, 5))
def test_equals_the_dense_matrix_and_its_transpose(make, seed, num_classes):
    graph, rng = make(seed), np.random.default_rng(seed + 1)
    u = rng.standard_normal((graph.num_nodes, num_classes))
    z = rng.standard_normal((graph.num_edges, num_classes))
    k = dense_gradient(graph)
    np.testing.assert_allclose(apply(graph, torch.from_numpy(u)).numpy(), k @ u, atol=1e-12)
    np.testing.assert_allclose(apply_adjoint(graph, torch.from_numpy(z)).numpy(), k.T @ z, atol=1e-12)


@pytest.mark.parametrize("make", [random_graph, messy_graph])
@given(seed=st.integers(0, 10_000))
def test_adjoint_identity(make, seed):
    graph, generator = make(seed), torch.Generator().manual_seed(seed)
    u = torch.randn(graph.num_nodes, 3, generator=generator, dtype=torch.float64)
    z = torch.randn(graph.num_edges, 3, generator=generator, dtype=torch.float64)
    left, right = (apply(graph, u) * z).sum(), (u * apply_adjoint(graph, z)).sum()
    assert abs(float(left - right)) <= 1e-12 * float((apply(graph, u).abs() * z.abs()).sum() + 1)


@given(seed=st.integers(0, 10_000))
def test_degree_is_in_the_kernel(seed):
    graph = messy_graph(seed)
    assert float(apply(graph, graph.degree.unsqueeze(-1)).abs().max()) <= 1e-14


@given(seed=st.integers(0, 10_000))
def test_diagonal_steps_satisfy_the_condition_of_the_solver(seed):
    graph = random_graph(seed)
    k = dense_gradient(graph)
    np.testing.assert_allclose(np.abs(k).sum(axis=0), 1, rtol=1e-12)  # so the primal step is a constant
    sigma = dual_step(graph.edge_index, graph.degree).numpy() / graph.edge_weight.numpy()
    np.testing.assert_allclose(sigma, 1 / np.abs(k).sum(axis=1), rtol=1e-12)
    assert np.linalg.norm(np.sqrt(sigma)[:, None] * k, 2) <= 1 + 1e-12


def test_runs_on_the_meta_device_with_the_right_shapes():
    graph = random_graph(0)
    edge_index, edge_weight, degree = (t.to("meta") for t in (graph.edge_index, graph.edge_weight, graph.degree))
    gradient = GraphGradient()
    difference = gradient(torch.empty(12, 4, dtype=torch.float64, device="meta"), edge_index, edge_weight, degree)
    assert difference.shape == (graph.num_edges, 4)
    assert gradient.adjoint(difference, edge_index, edge_weight, degree).shape == (12, 4)


def test_keeps_single_precision_and_repr():
    graph = random_graph(0, dtype=torch.float32)
    assert apply(graph, torch.ones(12, 2)).dtype == torch.float32
    assert repr(GraphGradient()) == "GraphGradient()"
