import numpy as np
import torch
from helpers import random_graph

from tg_crepe.solvers.column_laplacian import ColumnLaplacian


def test_every_column_is_solved_with_its_own_weights():
    graph = random_graph(0, num_nodes=20)
    generator = torch.Generator().manual_seed(0)
    free = torch.rand(20, 3, generator=generator) < 0.7
    weight = torch.rand(3, graph.num_edges, generator=generator, dtype=torch.float64).pow(4)
    rhs = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    x, iterations = ColumnLaplacian(graph, free).solve(weight, rhs, 1e-12, 1000)
    assert 0 < iterations < 1000
    i, j = graph.edge_index.numpy()
    for column in range(3):
        w = np.zeros((20, 20))
        w[i, j] = w[j, i] = weight[column]
        laplacian, inside = np.diag(w.sum(axis=1)) - w, free[:, column].numpy()
        expected = np.linalg.solve(laplacian[np.ix_(inside, inside)], rhs[:, column].numpy()[inside])
        np.testing.assert_allclose(x[:, column].numpy()[inside], expected, rtol=1e-8, atol=1e-10)
        assert not x[:, column].numpy()[~inside].any()


def test_a_node_without_any_weight_stays():
    graph = random_graph(1, num_nodes=10)
    touched = (graph.edge_index == 4).any(dim=0)
    weight = torch.where(touched, 0.0, 1.0).to(torch.float64).unsqueeze(0)
    free = torch.ones(10, 1, dtype=torch.bool)
    free[0] = False
    x, _ = ColumnLaplacian(graph, free).solve(weight, torch.ones(10, 1, dtype=torch.float64), 1e-10, 1000)
    assert float(x[4]) == 0
    assert torch.isfinite(x).all()
