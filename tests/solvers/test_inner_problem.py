"""The inner solver against an independent convex solver."""

import math
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import torch
from helpers import dense_gradient, random_graph, start_off_degree

from tg_crepe.energy import (
    Constraint,
    Coupling,
    IndependentLabels,
    LabelCoupling,
    along_degree,
    get_normaliser,
    ratio,
    total_variation,
)
from tg_crepe.graph import CanonicalGraph
from tg_crepe.solvers.backends import ReferenceBackend
from tg_crepe.solvers.chambolle_pock import PrimalDualState, solve_inner
from tg_crepe.solvers.problem import InnerProblem

KINDS = ("none", "coupling", "labels", "independent")


@dataclass
class Case:
    graph: CanonicalGraph
    problem: InnerProblem
    energy: float
    y: torch.Tensor
    sign: torch.Tensor
    eps: float
    kind: str

    @property
    def backend(self) -> ReferenceBackend:
        return ReferenceBackend(self.graph)

    def start(self) -> PrimalDualState:
        return self.backend.start(self.problem.constraint.project(self.problem.u_prev))

    def solve(self, gap_tol: float, max_iterations: int = 20_000):
        """To a gap, or with a negative one for all the iterations."""
        return solve_inner(self.problem, self.backend, self.start(), -math.inf, gap_tol, 10, max_iterations)


def make_case(kind: str, seed: int, step: float = 1.0, dtype: torch.dtype = torch.float64) -> Case:
    graph = random_graph(seed, num_nodes=14, dtype=dtype)
    u = start_off_degree(graph, 3, seed).to(dtype)
    y = torch.full((14,), -1)
    y[:5] = torch.tensor([0, 1, 2, 0, 1])
    sign = torch.from_numpy(np.random.default_rng(seed).integers(-1, 2, (14, 3)))
    scale = float(u.abs().mean())
    constraint = {
        "none": Constraint(),
        "coupling": Coupling(),
        "labels": LabelCoupling(y, scale),
        "independent": IndependentLabels(sign, scale),
    }[kind]
    energy, degree = total_variation(u, graph), graph.degree.double()
    norm, q = get_normaliser("degree_median")(u.double(), degree)
    linear = ratio(energy, norm) * (q - along_degree(q, degree))
    problem = InnerProblem(u, linear.to(dtype), step * scale, constraint)
    return Case(graph, problem, float(energy.sum()), y, sign, scale, kind)


def solve_with_cvxpy(case: Case) -> tuple[np.ndarray, float]:
    """The minimiser and the optimum by an interior-point method, at tolerance 1e-12."""
    u = cp.Variable((14, 3))
    problem = case.problem
    quadratic = cp.sum_squares(u - problem.u_prev.numpy()) / (2 * problem.time_step)
    objective = (
        quadratic - cp.sum(cp.multiply(problem.linear.numpy(), u)) + cp.sum(cp.abs(dense_gradient(case.graph) @ u))
    )
    conditions = []
    for x in range(14):
        label = int(case.y[x])
        if case.kind == "coupling" or (case.kind == "labels" and label < 0):
            conditions.append(cp.sum(u[x]) == 0)
        elif case.kind == "labels":
            conditions += [u[x, c] >= case.eps if c == label else u[x, c] <= -case.eps for c in range(3)]
        elif case.kind == "independent":
            conditions += [u[x, c] >= case.eps for c in range(3) if case.sign[x, c] > 0]
            conditions += [u[x, c] <= -case.eps for c in range(3) if case.sign[x, c] < 0]
    tight = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    value = cp.Problem(cp.Minimize(objective), conditions).solve(solver=cp.CLARABEL, **tight)
    return u.value, float(value)


@pytest.mark.parametrize("step", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_solution_equals_the_convex_solver_s(kind, step):
    # Long steps take many iterations, above all where no class hangs on another.
    iterations = {0.1: 1000, 1.0: 2000, 20.0: 10_000 if kind == "independent" else 3000}[step]
    for seed in (1,) if step > 1 else (0, 1):
        case = make_case(kind, seed, step)
        expected, optimum = solve_with_cvxpy(case)
        state, certificate, _ = case.solve(gap_tol=-1.0, max_iterations=iterations)
        np.testing.assert_allclose(state.u.numpy(), expected, atol=1e-6)
        assert float(certificate.primal) == pytest.approx(optimum, abs=1e-8 * case.energy)
        assert float(certificate.residual) <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_never_below_the_true_suboptimality(kind):
    for seed in range(2):
        case = make_case(kind, seed)
        # Our own optimum, certified above, is more exact than an interior point's value: P* lies within its gap.
        _, best, _ = case.solve(gap_tol=1e-14 * case.energy, max_iterations=3000)
        state = case.start()
        for _ in range(30):
            state = case.backend.iterate(state, case.problem, case.problem.time_step, 1.0)
            certificate = case.backend.certificate(state, case.problem)
            suboptimality = float(certificate.primal - best.primal)
            assert float(certificate.gap) >= suboptimality - 1e-12 * case.energy
            assert float(certificate.dual) <= float(best.primal) + 1e-12 * case.energy


@pytest.mark.parametrize("kind", KINDS)
def test_gap_bounds_the_distance_to_the_optimum(kind):
    case = make_case(kind, 3)
    best, _, _ = case.solve(gap_tol=1e-14 * case.energy, max_iterations=3000)
    for iterations in (10, 20, 40, 80):
        state, certificate, _ = case.solve(gap_tol=-1.0, max_iterations=iterations)
        distance = float((state.u - best.u).square().sum())
        assert distance <= 2 * case.problem.time_step * float(certificate.gap) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_iterates_are_feasible(kind):
    case = make_case(kind, 4)
    state = case.start()
    for _ in range(10):
        state = case.backend.iterate(state, case.problem, case.problem.time_step, 1.0)
        assert float(case.problem.constraint.coupling_violation(state.u)) <= 1e-14
        assert float(case.problem.constraint.margin_violation(state.u)) == 0
        assert float(state.dual.abs().max()) <= 1


def test_inner_iterates_keep_the_classes_orthogonal_to_the_degree_without_labels():
    case = make_case("coupling", 5)
    state = case.start()
    for _ in range(20):
        state = case.backend.iterate(state, case.problem, case.problem.time_step, 1.0)
        assert float((case.graph.degree @ state.u).abs().max()) <= 1e-12 * float(case.graph.degree.norm())


def test_warm_start_needs_fewer_iterations():
    case = make_case("labels", 6)
    tol = 1e-8 * case.energy
    state, _, cold = case.solve(gap_tol=tol)
    warm_state = case.backend.start(case.problem.constraint.project(case.problem.u_prev), state.dual)
    _, certificate, warm = solve_inner(case.problem, case.backend, warm_state, -math.inf, tol, 10, 20_000)
    assert float(certificate.gap) <= tol
    assert warm < cold


def test_stops_at_the_first_acceptable_point_when_no_gap_is_asked_for():
    case = make_case("coupling", 7)
    _, certificate, iterations = solve_inner(case.problem, case.backend, case.start(), 0.0, math.inf, 3, 5000)
    assert float(certificate.primal) <= 0
    assert iterations < 100


def test_single_precision_certificate_is_a_true_bound_too():
    case, exact = make_case("labels", 8, dtype=torch.float32), make_case("labels", 8)
    state, certificate, _ = case.solve(gap_tol=1e-4 * case.energy, max_iterations=2000)
    _, best, _ = exact.solve(gap_tol=1e-14 * case.energy, max_iterations=3000)
    assert state.u.dtype == torch.float32
    assert 0 <= float(certificate.gap) <= 1e-4 * case.energy
    assert float(certificate.dual) <= float(best.primal) + 1e-6 * case.energy
