import numpy as np
import pytest
import torch
from hypothesis import given
from label_problems import assert_close, label_problem, label_problems

from tg_crepe import CenteredKernel, ConvergenceWarning
from tg_crepe.models.centered_kernel import spectral_norm


def centred(w: np.ndarray) -> np.ndarray:
    p = np.eye(len(w)) - 1 / len(w)
    return p @ w @ p


def dense_solution(w: np.ndarray, value: np.ndarray, known: np.ndarray, scale: float = 1.05) -> np.ndarray:
    """The fixed point as a dense linear system, with the norm from a dense eigensolver."""
    kernel = centred(w)
    kernel = kernel / (scale * np.abs(np.linalg.eigvalsh(kernel)).max())
    u = np.where(known[:, None], value - value[known].mean(axis=0), 0)
    free = ~known
    u[free] = np.linalg.solve(np.eye(free.sum()) - kernel[np.ix_(free, free)], kernel[np.ix_(free, known)] @ u[known])
    return u


@pytest.mark.parametrize("scale", [1.05, 2.0])
@given(problem=label_problems())
def test_equals_the_dense_solve(scale, problem):
    expected = dense_solution(problem.w, problem.onehot, ~problem.free, scale)
    result = CenteredKernel(scale=scale, tol=1e-12).propagate(problem.y, problem.graph.adjacency)
    assert_close(result.u, expected)
    assert result.status == "converged"


def test_the_solution_is_the_fixed_point_of_the_iteration():
    problem = label_problem(0)
    kernel = centred(problem.w)
    kernel = kernel / (1.05 * np.abs(np.linalg.eigvalsh(kernel)).max())
    known = ~problem.free
    u = np.where(known[:, None], problem.onehot - problem.onehot[known].mean(axis=0), 0)
    for _ in range(1000):
        u = np.where(known[:, None], u, kernel @ u)
    assert_close(CenteredKernel(tol=1e-12).propagate(problem.y, problem.graph.adjacency).u, u)


def test_findings_have_their_own_known_nodes():
    problem = label_problem(1)
    findings = torch.stack([problem.y.clamp(max=1), torch.full_like(problem.y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    result = CenteredKernel(tol=1e-12).propagate(findings, problem.graph.adjacency)
    for column in range(2):
        value = findings[:, column].numpy()
        expected = dense_solution(problem.w, value[:, None].astype(float), value >= 0)[:, 0]
        assert_close(result.u[:, column], expected)
        assert (result.label[value < 0, column].numpy() == (expected > 0)[value < 0]).all()


def random_start(n: int) -> torch.Tensor:
    return torch.randn(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@given(problem=label_problems())
def test_norm_equals_the_dense_one(problem):
    matrix = torch.from_numpy(centred(problem.w))
    expected = float(torch.linalg.matrix_norm(matrix, ord=2))
    assert spectral_norm(lambda x: matrix @ x, random_start(len(matrix))) == pytest.approx(expected, rel=1e-9)


def test_a_start_almost_without_the_largest_eigenvector_still_finds_it():
    value = torch.cat([torch.linspace(-0.5, 0.9, 300), torch.ones(1)]).double().unsqueeze(1)
    start = random_start(301)
    start[-1] = 1e-10
    assert spectral_norm(lambda x: value * x, start) == pytest.approx(1, rel=1e-9)
    # A hundred steps of a power iteration from there are off by more than the factor 1.05 allows.
    for _ in range(100):
        start = value * start / start.norm()
    assert float((start * value * start).sum() / start.square().sum()) < 0.91


def test_norm_where_a_few_steps_span_everything():
    complete = torch.ones(6, 6, dtype=torch.float64) - torch.eye(6, dtype=torch.float64)
    matrix = torch.from_numpy(centred(complete.numpy()))  # minus the projection: one eigenvalue, five times
    assert spectral_norm(lambda x: matrix @ x, random_start(6)) == pytest.approx(1)


def test_norm_of_a_small_dense_corner_of_a_large_sparse_graph():
    # Thirty nodes all tied to each other among 2,000 on a ring: the largest eigenvector lives on them alone.
    ring = torch.stack([torch.arange(2000), (torch.arange(2000) + 1) % 2000])
    corner = torch.combinations(torch.arange(30), 2).t()
    edge_index = torch.cat([ring, ring.flip(0), corner, corner.flip(0)], dim=1)
    matrix = torch.zeros(2000, 2000, dtype=torch.float64)
    matrix[edge_index[0], edge_index[1]] = 1
    matrix = torch.from_numpy(centred(matrix.numpy()))
    expected = float(torch.linalg.eigvalsh(matrix).abs().max())
    assert spectral_norm(lambda x: matrix @ x, random_start(2000)) == pytest.approx(expected, rel=1e-9)


def test_limit_is_reported():
    problem = label_problem(0)
    with pytest.warns(ConvergenceWarning, match="CenteredKernel ended with status 'step_limit'"):
        result = CenteredKernel(tol=1e-12, max_iterations=2).propagate(problem.y, problem.graph.adjacency)
    assert result.status == "step_limit"
    assert result.trace["step"].tolist() == [2]


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match="'scale' must be above 1, got 1"):
        CenteredKernel(scale=1)
    with pytest.raises(ValueError, match="'max_iterations' must be"):
        CenteredKernel(max_iterations=0)
    assert repr(CenteredKernel()) == "CenteredKernel(scale=1.05)"
