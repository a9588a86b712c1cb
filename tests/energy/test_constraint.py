import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.energy import Constraint, Coupling, IndependentLabels, KnownValues, LabelCoupling

EPS = 0.3
Y = torch.tensor([0, -1, 2, -1, 1, -1, 2])
SIGN = torch.tensor([[1, 0, -1], [0, 0, 0], [-1, -1, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0], [-1, 0, 0]])
SETS = {
    "none": Constraint(),
    "coupling": Coupling(),
    "labels": LabelCoupling(Y, EPS),
    "independent": IndependentLabels(SIGN, EPS),
    "known": KnownValues(SIGN.double()),
}


def conditions(name: str, u: cp.Variable) -> list[cp.Constraint]:
    """The sets as the paper writes them, for a QP solver."""
    found = []
    for x in range(7):
        y = int(Y[x])
        if name == "coupling" or (name == "labels" and y < 0):
            found.append(cp.sum(u[x]) == 0)
        elif name == "labels":
            found += [u[x, c] >= EPS if c == y else u[x, c] <= -EPS for c in range(3)]
        elif name == "independent":
            found += [u[x, c] >= EPS for c in range(3) if SIGN[x, c] > 0]
            found += [u[x, c] <= -EPS for c in range(3) if SIGN[x, c] < 0]
        elif name == "known":
            found += [u[x, c] >= float(SIGN[x, c] > 0) for c in range(3)]
            found += [u[x, c] <= float(SIGN[x, c] >= 0) for c in range(3)]
    return found


@pytest.mark.parametrize("name", SETS)
def test_projection_is_the_nearest_point_of_the_set(name):
    for seed in range(3):
        u = np.random.default_rng(seed).standard_normal((7, 3))
        point = cp.Variable((7, 3))
        problem = cp.Problem(cp.Minimize(cp.sum_squares(point - u)), conditions(name, point))
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)  # exact enough close to a bound
        np.testing.assert_allclose(SETS[name].project(torch.from_numpy(u)).numpy(), point.value, atol=1e-6)


@pytest.mark.parametrize("name", SETS)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100))
def test_projection_is_feasible_idempotent_and_nonexpansive(name, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    u, other = scale * torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    before = u.clone()
    projected = SETS[name].project(u)
    assert torch.equal(u, before)
    assert float(SETS[name].coupling_violation(projected)) <= 1e-12 * scale
    assert float(SETS[name].margin_violation(projected)) == 0
    torch.testing.assert_close(SETS[name].project(projected), projected, atol=1e-12 * scale, rtol=0)
    assert float((projected - SETS[name].project(other)).norm()) <= float((u - other).norm()) * (1 + 1e-12)


def test_labels_are_not_coupled_where_they_are_given():
    projected = SETS["labels"].project(torch.zeros(7, 3, dtype=torch.float64))
    assert projected[0].tolist() == [EPS, -EPS, -EPS]
    assert projected[1].tolist() == [0, 0, 0]


def test_violations_say_how_far_a_point_is_outside():
    u = torch.zeros(7, 3, dtype=torch.float64)
    u[1] = torch.tensor([1.0, 0.5, 0.0])
    assert float(SETS["labels"].coupling_violation(u)) == 1.5
    assert float(SETS["labels"].margin_violation(u)) == pytest.approx(EPS)
    assert float(SETS["coupling"].coupling_violation(u)) == 1.5
    assert float(SETS["independent"].margin_violation(u)) == pytest.approx(EPS)
    assert float(SETS["none"].coupling_violation(u)) == float(SETS["none"].margin_violation(u)) == 0


def test_another_margin_keeps_the_labels():
    assert SETS["labels"].at(0.7).eps == 0.7
    assert SETS["independent"].at(0.7).eps == 0.7
    assert torch.equal(SETS["labels"].at(0.7).y, Y)
    assert SETS["coupling"].at(0.7) == Coupling()


def test_projections_run_on_the_meta_device():
    u = torch.empty(7, 3, device="meta")
    assert LabelCoupling(Y.to("meta"), EPS).project(u).shape == (7, 3)
    assert IndependentLabels(SIGN.to("meta"), EPS).project(u).shape == (7, 3)
