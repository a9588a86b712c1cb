"""Long thin graphs: the band is factorised, and the answer is that of dense algebra."""

import numpy as np
import pytest
import torch
from helpers import dense_adjacency, random_graph
from small_graphs import path

from tg_crepe import get_energy_model
from tg_crepe.models.registry import ENERGY_MODELS
from tg_crepe.solvers.banded import BandedSystem


@pytest.mark.parametrize("seed", range(3))
def test_a_band_solves_what_dense_algebra_solves(seed):
    graph = random_graph(seed, num_nodes=15)
    diagonal, rhs = graph.degree + 0.1, torch.randn(15, 2, dtype=torch.float64)
    found = BandedSystem(graph).solve(diagonal, graph.edge_weight, rhs)
    dense = np.diag(diagonal.numpy()) - dense_adjacency(graph)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(dense, rhs.numpy()), rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_is_not_solved():
    graph = path(4)
    assert BandedSystem(graph).solve(graph.degree - 1, graph.edge_weight, torch.ones(4, 1, dtype=torch.float64)) is None


def test_the_harmonic_extension_of_a_path_is_a_straight_line():
    num_nodes = 2000
    y = torch.full((num_nodes,), -1)
    y[0], y[-1] = 0, 1
    graph = path(num_nodes)
    both = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    result = get_energy_model("harmonic").propagate(y, both, None, graph.edge_weight.repeat(2))
    assert result.status == "converged"
    assert torch.equal(result.label, (torch.arange(num_nodes) >= num_nodes / 2).long())
    wnll = get_energy_model("wnll").propagate(y, both, None, graph.edge_weight.repeat(2))
    assert wnll.status == "converged"


@pytest.mark.filterwarnings("ignore::tg_crepe.warnings.ConvergenceWarning")
@pytest.mark.parametrize("name", ENERGY_MODELS)
def test_every_model_ends_on_a_long_path_of_uneven_weights(name):
    num_nodes = 2000
    generator = torch.Generator().manual_seed(0)
    weight = 10.0 ** (4 * torch.rand(num_nodes - 1, generator=generator) - 2)
    y = torch.full((num_nodes,), -1)
    y[0], y[-1] = 0, 1
    first = torch.arange(num_nodes - 1)
    edge_index = torch.cat([torch.stack([first, first + 1]), torch.stack([first + 1, first])], dim=1)
    result = get_energy_model(name).propagate(y, edge_index, None, weight.repeat(2))
    assert result.status in ("converged", "step_limit", "stalled")
    assert bool(torch.isfinite(result.prob).all())
    assert bool(result.reached.all())
