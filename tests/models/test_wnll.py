import numpy as np
import pytest
import torch
from hypothesis import given
from label_problems import assert_close, label_problem, label_problems

from tg_crepe import WNLL, Harmonic


def normal_equations(w: np.ndarray, value: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The minimiser over the free nodes of Σ_i Σ_j w_ij (u_i − u_j)², with the sum over known i weighted by n/m."""
    n, m = len(w), known.sum()
    row = np.where(known, n / m, 1)[:, None] * w
    both = row + row.T  # a pair occurs once from either end
    laplacian = np.diag(both.sum(axis=1)) - both
    return np.linalg.solve(laplacian[np.ix_(~known, ~known)], both[np.ix_(~known, known)] @ value[known])


@given(problem=label_problems())
def test_equals_the_dense_normal_equations(problem):
    expected = normal_equations(problem.w, problem.onehot, ~problem.free)
    result = WNLL(tol=1e-12).propagate(problem.y, problem.graph.adjacency)
    assert_close(result.u[problem.free], expected)
    np.testing.assert_allclose(result.u.sum(dim=1), 1, atol=1e-6)


def test_it_is_harmonic_with_stronger_label_edges():
    problem = label_problem(3)
    one = WNLL(tol=1e-10).propagate(problem.y, problem.graph.adjacency).u
    other = Harmonic(label_weight=(1 + 15 / 6) / 2, tol=1e-10).propagate(problem.y, problem.graph.adjacency).u
    torch.testing.assert_close(one, other)


def test_every_finding_has_its_own_number_of_labels():
    problem = label_problem(1)
    findings = torch.stack([problem.y.clamp(max=1), torch.full_like(problem.y, -1)], dim=1)
    findings[3, 1], findings[7, 1] = 0, 1
    u = WNLL(tol=1e-10).propagate(findings, problem.graph.adjacency).u.numpy()
    for column in range(2):
        value = findings[:, column].numpy()
        expected = normal_equations(problem.w, value.astype(float), value >= 0)
        np.testing.assert_allclose(u[value < 0, column], expected, atol=1e-6)


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match="'tol' must be"):
        WNLL(tol=float("nan"))
    assert repr(WNLL()) == "WNLL()"
