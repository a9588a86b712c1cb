import numpy as np
import pytest
import torch
from helpers import dense_adjacency, dense_gradient, random_graph
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.energy import dirichlet_energy, ratio, total_variation


@given(seed=st.integers(0, 10_000))
def test_total_variation_is_the_l1_norm_of_the_gradient(seed):
    graph = random_graph(seed)
    u = np.random.default_rng(seed).standard_normal((graph.num_nodes, 3))
    expected = np.abs(dense_gradient(graph) @ u).sum(axis=0)
    np.testing.assert_allclose(total_variation(torch.from_numpy(u), graph).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_dirichlet_energy_counts_every_edge_once(p):
    graph = random_graph(3)
    u = np.random.default_rng(0).standard_normal((graph.num_nodes, 2))
    w = dense_adjacency(graph)
    v = u / w.sum(axis=1, keepdims=True) ** (1 / p)
    expected = (w[:, :, None] * np.abs(v[:, None] - v[None]) ** p).sum(axis=(0, 1)) / 2
    np.testing.assert_allclose(dirichlet_energy(torch.from_numpy(u), graph, p).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 1.5, 2])
@given(factor=st.floats(-50, 50))
def test_energy_is_absolutely_p_homogeneous(p, factor):
    graph = random_graph(1)
    u = torch.randn(graph.num_nodes, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = abs(factor) ** p * dirichlet_energy(u, graph, p)
    torch.testing.assert_close(dirichlet_energy(factor * u, graph, p), expected, rtol=1e-9, atol=1e-12)


def test_scale_of_the_weights_leaves_the_total_variation():
    # u / d shrinks as the weights grow, so J does not know their unit.
    graph = random_graph(2)
    u = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    torch.testing.assert_close(total_variation(u, graph), total_variation(u, graph.with_weight(7 * graph.edge_weight)))


def test_ratio_of_a_vanished_class_is_zero():
    value = ratio(torch.tensor([2.0, 0.0, 0.0]).double(), torch.tensor([4.0, 0.0, 1.0]).double())
    assert value.tolist() == [0.5, 0.0, 0.0]


def test_ratio_of_a_class_that_is_only_rounding_is_zero():
    energy, norm = torch.tensor([2.0, 1e-16]).double(), torch.tensor([4.0, 1e-16]).double()
    assert ratio(energy, norm, precision=1e-14).tolist() == [0.5, 0.0]
    assert ratio(energy, norm).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("p", [0.5, 0, -1, float("nan"), float("inf"), "2"])
def test_exponent_below_one_is_refused(p):
    with pytest.raises(ValueError, match="'p' must be"):
        dirichlet_energy(torch.zeros(12, 1), random_graph(0), p)
