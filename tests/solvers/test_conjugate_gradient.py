import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.solvers import conjugate_gradient


def system(seed: int, n: int = 15, spread: float = 3.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return torch.from_numpy(q @ np.diag(10 ** rng.uniform(-spread / 2, spread / 2, n)) @ q.T)


@pytest.mark.parametrize("jacobi", [False, True])
@given(seed=st.integers(0, 10_000))
def test_solution_equals_a_dense_solve(jacobi, seed):
    matrix, rhs = system(seed), torch.from_numpy(np.random.default_rng(seed).standard_normal((15, 4)))
    result = conjugate_gradient(lambda x: matrix @ x, rhs, matrix.diagonal() if jacobi else None, tol=1e-12)
    assert result.status == "converged"
    torch.testing.assert_close(matrix @ result.x, rhs, atol=1e-10, rtol=1e-9)


def test_a_zero_column_is_solved_by_zero_and_disturbs_nobody():
    matrix = system(0)
    rhs = torch.randn(15, 3, dtype=torch.float64)
    rhs[:, 1] = 0
    result = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-10)
    assert result.x[:, 1].tolist() == [0.0] * 15
    torch.testing.assert_close(matrix @ result.x, rhs, atol=1e-8, rtol=0)


def test_all_columns_zero_take_no_iteration():
    result = conjugate_gradient(lambda x: x, torch.zeros(4, 2))
    assert result.iterations == 0
    assert result.status == "converged"


def test_every_column_stops_on_its_own_and_keeps_its_solution():
    # Column 0 is an eigenvector, exact after one step; frozen, it must not drift while the other goes on.
    matrix = torch.diag(torch.arange(1.0, 16.0, dtype=torch.float64))
    rhs = torch.ones(15, 2, dtype=torch.float64)
    rhs[:, 0] = torch.eye(15, dtype=torch.float64)[3]
    result = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-12)
    torch.testing.assert_close(result.x, torch.linalg.solve(matrix, rhs), atol=1e-12, rtol=1e-10)


@given(exponent=st.integers(-20, 20))
def test_tolerance_is_relative(exponent):
    scale = 2.0**exponent  # exact, so that not even rounding differs
    matrix, rhs = system(1), torch.ones(15, 1, dtype=torch.float64)
    one = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-6)
    other = conjugate_gradient(lambda x: matrix @ x, scale * rhs, tol=1e-6)
    assert one.iterations == other.iterations
    torch.testing.assert_close(other.x, scale * one.x, rtol=1e-6, atol=0)


def test_limit_is_reported_with_the_residual_that_was_reached():
    matrix, rhs = system(2, spread=6), torch.ones(15, 2, dtype=torch.float64)
    result = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-12, max_iterations=3)
    assert result.status == "step_limit"
    assert result.iterations == 3
    true = (rhs - matrix @ result.x).norm(dim=0) / rhs.norm(dim=0)
    torch.testing.assert_close(result.residual, true, rtol=1e-6, atol=0)


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="'tol' must be"):
        conjugate_gradient(lambda x: x, torch.ones(2, 1), tol=0)
    with pytest.raises(ValueError, match="'max_iterations' must be"):
        conjugate_gradient(lambda x: x, torch.ones(2, 1), max_iterations=0)
    with pytest.raises(ValueError, match=r"'diagonal' must have a number per row.*\(3, 2\), got shape \(2,\)"):
        conjugate_gradient(lambda x: x, torch.ones(3, 2), torch.ones(2))


@pytest.mark.parametrize("shape", [(15,), (15, 1), (15, 9)])
@pytest.mark.parametrize("columns", [1, 9])
def test_the_preconditioner_may_be_of_rows_or_of_rows_and_columns(shape, columns):
    if len(shape) == 2 and shape[1] > columns:
        shape = (15, columns)
    matrix = system(4)
    rhs = torch.from_numpy(np.random.default_rng(4).standard_normal((15, columns)))
    diagonal = matrix.diagonal().view(-1, *[1] * (len(shape) - 1)).expand(shape)
    result = conjugate_gradient(lambda x: matrix @ x, rhs, diagonal, tol=1e-12)
    torch.testing.assert_close(matrix @ result.x, rhs, atol=1e-9, rtol=1e-8)


def test_a_start_near_the_solution_saves_iterations_and_leads_to_the_same_place():
    matrix, rhs = system(3), torch.from_numpy(np.random.default_rng(3).standard_normal((15, 3)))
    rhs[:, 1] = 0
    cold = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-10)
    start = cold.x + 1e-6
    before = start.clone()
    warm = conjugate_gradient(lambda x: matrix @ x, rhs, tol=1e-10, x0=start)
    assert warm.iterations < cold.iterations
    assert warm.x[:, 1].tolist() == [0.0] * 15
    torch.testing.assert_close(warm.x, cold.x, atol=1e-8, rtol=1e-8)
    assert torch.equal(start, before)
