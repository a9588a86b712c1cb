"""Every backend against the reference, and what the compiled one has to survive."""

import math
import multiprocessing
import threading
from dataclasses import replace
from functools import cache

import pytest
import torch
from helpers import clusters, random_graph, start_off_degree
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from tg_crepe import CrepePropagation, RatioFlow, knn_graph
from tg_crepe._optional import available
from tg_crepe.energy import Constraint, Coupling, IndependentLabels, LabelCoupling, total_variation
from tg_crepe.graph import CanonicalGraph
from tg_crepe.solvers.backends import BACKENDS, make_backend
from tg_crepe.solvers.backends.numba import NumbaBackend
from tg_crepe.solvers.chambolle_pock import solve_inner
from tg_crepe.solvers.kernels import COUNTS
from tg_crepe.solvers.problem import InnerProblem
from tg_crepe.solvers.ratio_flow import geometric_steps

needs_numba = pytest.mark.skipif(not available("numba"), reason="numba is not installed (extra 'fast')")
FAST = [pytest.param("numba", marks=needs_numba), "torch"]
KINDS = ("none", "coupling", "labels", "independent")


def make_problem(kind: str, num_classes: int, dtype: torch.dtype) -> tuple[CanonicalGraph, InnerProblem]:
    graph, _ = clusters(0)
    graph = graph.with_weight(graph.edge_weight.to(dtype))
    u = start_off_degree(graph, num_classes, coupled=num_classes > 1).to(dtype)
    generator = torch.Generator().manual_seed(1)
    y = torch.full((150,), -1)
    y[:20] = torch.arange(20) % num_classes
    scale = float(u.abs().mean())
    constraint = {
        "none": Constraint(),
        "coupling": Coupling(),
        "labels": LabelCoupling(y, scale),
        "independent": IndependentLabels(torch.randint(-1, 2, (150, num_classes), generator=generator), scale),
    }[kind]
    linear = 1e-2 * torch.randn(150, num_classes, generator=generator, dtype=torch.float64)
    return graph, InnerProblem(u, linear.to(dtype), 2 * scale, constraint)


def run(name: str, graph: CanonicalGraph, problem: InnerProblem, iterations: int):
    backend = make_backend(name, graph)
    start = backend.start(problem.constraint.project(problem.u_prev))
    return solve_inner(problem, backend, start, -math.inf, -1.0, 10, iterations)


@cache
def solve_with_the_reference(kind: str, num_classes: int, dtype: torch.dtype):
    graph, problem = make_problem(kind, num_classes, dtype)
    state, certificate, _ = run("reference", graph, problem, 200)
    return graph, problem, state, certificate


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_classes", [2, 3, 10, 14, 67, 100])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAST)
def test_200_iterations_equal_the_reference(name, kind, num_classes, dtype):
    graph, problem, expected, certificate = solve_with_the_reference(kind, num_classes, dtype)
    state, found, iterations = run(name, graph, problem, 200)
    assert iterations == 200
    tol = 1e-5 if dtype == torch.float32 else 1e-10
    assert float((state.u - expected.u).abs().max()) <= tol * float(expected.u.abs().max())
    if kind == "independent":  # many entries are clamped to one value, so the sign is the label
        assert float(((state.u > 0) == (expected.u > 0)).double().mean()) >= 0.9999
    else:
        assert float((state.u.argmax(dim=1) == expected.u.argmax(dim=1)).double().mean()) >= 0.9999
    scale = float(certificate.energy.sum())
    for one, other in ((found.primal, certificate.primal), (found.dual, certificate.dual)):
        assert abs(float(one - other)) <= tol * scale
    torch.testing.assert_close(found.energy, certificate.energy, rtol=10 * tol, atol=tol * scale)
    assert abs(float(found.residual - certificate.residual)) <= 100 * tol


@pytest.mark.parametrize("name", [*FAST, "reference"])
@given(seed=st.integers(0, 10_000))
def test_the_energy_of_a_backend_is_the_total_variation(name, seed):
    graph = random_graph(seed, num_nodes=40)
    u = torch.randn(40, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(make_backend(name, graph).own_energy(u), total_variation(u, graph), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("num_classes", [1, 3, 10, 70])
def test_the_energy_of_functions_in_single_precision_is_summed_in_double(name, num_classes):
    """Neighbours of nearly equal value: in single precision their differences would have two digits."""
    graph = random_graph(num_classes, num_nodes=40)
    graph = graph.with_weight(graph.edge_weight.float())
    noise = 1e-5 * torch.randn(40, num_classes, generator=torch.Generator().manual_seed(0))
    u = graph.degree.unsqueeze(-1) * (1 + noise)
    degree, (first, second) = graph.degree.double(), graph.edge_index
    v = u.double() / degree.unsqueeze(-1)
    expected = graph.edge_weight.double() @ (v[first] - v[second]).abs()
    torch.testing.assert_close(make_backend(name, graph).own_energy(u), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", [*FAST, "reference"])
def test_one_class_alone_is_the_binary_flow(name):
    graph, _ = clusters(1)
    u = start_off_degree(graph, 1, coupled=False)
    expected = RatioFlow("degree_median", 1.0, max_steps=5, backend="reference")(u, graph).u
    torch.testing.assert_close(RatioFlow("degree_median", 1.0, max_steps=5, backend=name)(u, graph).u, expected)


@needs_numba
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_classes", [2, 10, 14])
def test_the_two_copies_of_the_dual_stay_exact_negatives(num_classes, dtype):
    graph, problem = make_problem("labels", num_classes, dtype)
    state, certificate, _ = run("numba", graph, problem, 1000)
    _, col, edge = graph.csr_pattern
    order = torch.argsort(edge, stable=True).view(-1, 2)  # the two slots of every edge
    assert torch.equal(edge[order[:, 0]], edge[order[:, 1]])
    assert not torch.equal(col[order[:, 0]], col[order[:, 1]])
    assert torch.equal(state.dual[order[:, 0]], -state.dual[order[:, 1]])
    assert float(certificate.gap) >= -1e-12 * float(certificate.energy.sum())


@needs_numba
@pytest.mark.parametrize("num_classes", [1, 2, 10, 70])
@pytest.mark.parametrize("kind", KINDS)
def test_a_dual_in_16_bits_is_antisymmetric_feasible_and_bounds_the_optimum(kind, num_classes):
    graph, problem = make_problem(kind, num_classes, torch.float32)
    backend = NumbaBackend(graph, short=True)
    state = backend.start(problem.constraint.project(problem.u_prev))
    state, certificate, _ = solve_inner(problem, backend, state, -math.inf, -1.0, 10, 400)
    assert state.dual.dtype == torch.int16
    assert int(state.dual.abs().max()) <= COUNTS
    slots = torch.argsort(graph.csr_pattern[2], stable=True).view(-1, 2)
    assert torch.equal(state.dual[slots[:, 0]], -state.dual[slots[:, 1]])
    # The optimum in double precision, within its own gap.
    double, exact = make_problem(kind, num_classes, torch.float64)
    best = run("numba", double, exact, 3000)[1]
    size = max(float(best.energy.sum()), abs(float(best.primal)))
    assert float(certificate.dual) <= float(best.primal) + 1e-6 * size
    assert float(certificate.primal) >= float(best.dual) - 1e-6 * size
    assert float(certificate.gap) <= 1e-2 * size
    # The certificate is that of the numbers which are kept.
    plain = NumbaBackend(graph).certificate(replace(state, dual=backend.by_slot(state.dual)), problem)
    torch.testing.assert_close(certificate.dual, plain.dual, rtol=1e-6, atol=1e-6 * size)
    assert torch.equal(backend.from_slots(backend.by_slot(state.dual)), state.dual)


@needs_numba
def test_in_double_precision_no_dual_is_kept_in_16_bits():
    graph, problem = make_problem("coupling", 3, torch.float64)
    assert NumbaBackend(graph, short=True).start(problem.u_prev).dual.dtype == torch.float64


@needs_numba
@pytest.mark.parametrize("seed", range(3))
def test_a_flow_with_a_dual_in_16_bits_leads_to_the_same_point(seed):
    graph, y = clusters(seed)
    graph = graph.with_weight(graph.edge_weight.float())
    u = start_off_degree(graph, 3, coupled=True).float()
    constraint = LabelCoupling(torch.where(torch.arange(150) % 10 == 0, y, -1), 1.0)
    steps = geometric_steps(20.0, 6, 1.5)
    found = [
        RatioFlow("degree_median", steps, inner_iterations=10, backend="numba", short_dual=short)(u, graph, constraint)
        for short in (False, True)
    ]
    torch.testing.assert_close(found[0].u, found[1].u, atol=2e-5, rtol=0)
    assert torch.equal(found[0].u.argmax(dim=1), found[1].u.argmax(dim=1))


@needs_numba
@pytest.mark.parametrize("short", [False, True])
def test_a_flow_goes_on_from_a_dual_that_was_kept_in_the_other_way(short):
    graph, _ = clusters(0)
    graph = graph.with_weight(graph.edge_weight.float())
    u = start_off_degree(graph, 3, coupled=True).float()

    def run(short, dual=None):
        flow = RatioFlow("degree_median", [1.0, 1.0], backend="numba", short_dual=short)
        return flow(u, graph, Coupling(), dual)

    same, other = run(short, run(short).dual), run(short, run(not short).dual)
    assert same.status == other.status == "converged"
    torch.testing.assert_close(same.u, other.u, atol=2e-4, rtol=0)
    assert torch.equal(same.u.argmax(dim=1), other.u.argmax(dim=1))


@needs_numba
def test_steps_too_long_for_a_dual_in_16_bits_are_taken_in_full():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 2, generator=generator) + 1.5 * torch.eye(3)[torch.arange(600) % 3][:, :2]
    edge_index, weight = knn_graph(x, 10)
    half = weight.numel() // 2
    graph = CanonicalGraph(edge_index[:, :half], weight[:half].float(), 600)
    u = start_off_degree(graph, 3, coupled=True).float()
    steps = geometric_steps(1e5, 8, 1.5)
    found = [
        RatioFlow("degree_median", steps, inner_iterations=50, backend="numba", short_dual=short)(u, graph, Coupling())
        for short in (False, True)
    ]
    assert found[0].status == found[1].status
    assert len(found[0].trace["step"]) == len(found[1].trace["step"])
    last = [float(result.trace["sum_of_ratios"][-1]) for result in found]
    assert last[1] <= 1.1 * last[0]


@needs_numba
def test_number_of_threads_changes_no_bit():
    x = torch.randn(6000, 8, generator=torch.Generator().manual_seed(0))
    edge_index, edge_weight = knn_graph(x, 20, "cosine")
    half = edge_weight.numel() // 2  # every edge once comes first
    graph = CanonicalGraph(edge_index[:, :half], edge_weight[:half], 6000)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    mask, threads = torch.arange(6000) % 100 == 0, torch.get_num_threads()
    found = []
    for number in (1, 2, 2):
        torch.set_num_threads(number)
        backend = NumbaBackend(graph)
        assert len(backend.chunks) > 2
        u = torch.randn(6000, 3, generator=torch.Generator().manual_seed(1))
        problem = InnerProblem(u, torch.zeros_like(u), 1.0, LabelCoupling(torch.where(mask, y, -1), 0.5))
        state, certificate, _ = solve_inner(problem, backend, backend.start(u), -math.inf, -1.0, 10, 50)
        found.append((state.u.clone(), certificate.gap))
    torch.set_num_threads(threads)
    for u, gap in found[1:]:
        assert torch.equal(u, found[0][0])
        assert torch.equal(gap, found[0][1])


def propagate_digits_like() -> torch.Tensor:
    graph, y = clusters(0)
    mask = torch.arange(150) % 10 == 0
    return CrepePropagation(backend="numba").propagate(y, graph.adjacency, mask).u


class _Propagated(Dataset):
    """Runs the model in the worker that loads an item."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return propagate_digits_like()


@needs_numba
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_survives_a_forked_dataloader_worker():
    expected = propagate_digits_like()  # the pool and the compiled code exist before the fork
    loader = DataLoader(_Propagated(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120)
    found = list(loader)
    assert len(found) == 4
    for u in found:
        torch.testing.assert_close(u, expected, atol=1e-12, rtol=0)
    assert torch.equal(propagate_digits_like(), expected)


@needs_numba
def test_survives_two_python_threads_at_once():
    expected, found, errors = propagate_digits_like(), [], []

    def work() -> None:
        try:
            found.extend(propagate_digits_like() for _ in range(5))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not errors
    assert len(found) == 10
    assert all(torch.equal(u, expected) for u in found)


@needs_numba
def test_runs_beside_torch_and_faiss_in_one_process():
    pytest.importorskip("faiss", reason="faiss is not installed (extra 'knn')")
    x = torch.randn(3000, 16, generator=torch.Generator().manual_seed(0))
    before = propagate_digits_like()
    first = knn_graph(x, 10, backend="faiss")
    product = x @ x.t()
    assert torch.equal(propagate_digits_like(), before)
    assert torch.equal(knn_graph(x, 10, backend="faiss")[0], first[0])
    assert torch.equal(x @ x.t(), product)


def test_a_warm_dual_of_the_user_is_left_alone():
    graph, problem = make_problem("coupling", 3, torch.float64)
    for name in BACKENDS[1:]:
        if name == "numba" and not available("numba"):
            continue
        flow = RatioFlow("l1", [1.0], backend=name)
        dual = flow(problem.u_prev, graph, Coupling()).dual
        before = dual.clone()
        flow(problem.u_prev, graph, Coupling(), dual)
        assert torch.equal(dual, before)


def test_models_give_the_same_labels_with_every_backend():
    graph, y = clusters(2)
    mask = torch.arange(150) % 10 == 0
    names = [n for n in BACKENDS[1:] if n != "numba" or available("numba")]
    results = [CrepePropagation(backend=n).propagate(y, graph.adjacency, mask) for n in names]
    for result in results[1:]:
        assert torch.equal(result.label, results[0].label)
        torch.testing.assert_close(result.u, results[0].u, atol=1e-10, rtol=0)


def test_auto_takes_torch_where_numba_is_missing(monkeypatch):
    graph, _ = clusters(0)
    monkeypatch.setattr("tg_crepe.solvers.backends.choice.available", lambda module: False)
    assert type(make_backend("auto", graph)).__name__ == "TorchBackend"


@needs_numba
def test_auto_takes_numba_on_the_cpu_and_torch_elsewhere():
    graph, _ = clusters(0)
    assert type(make_backend("auto", graph)).__name__ == "NumbaBackend"
    elsewhere = CanonicalGraph(graph.edge_index.to("meta"), graph.edge_weight.to("meta"), 150)
    with pytest.raises(ValueError, match="'backend' = 'numba' needs the graph on the CPU, got meta"):
        make_backend("numba", elsewhere)


def test_missing_numba_and_unknown_names_are_named(monkeypatch):
    graph, _ = clusters(0)
    with pytest.raises(ValueError, match="'backend' must be one of 'auto', 'numba', 'torch', 'reference', got 'cuda'"):
        make_backend("cuda", graph)
    with pytest.raises(ValueError, match="'backend' must be one of"):
        CrepePropagation(backend="fast")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"tg-crepe\[fast\]"):
        make_backend("numba", graph)
