"""The flow and the models on parts of a graph against one process; ranks are threads here, with the same arithmetic."""

from __future__ import annotations

import math
import os
import warnings

import pytest
import torch
from distributed_problems import SharedProblem, digits, fashion_images, islands, moons
from rank_threads import ThreadTransport, infer_on_threads, run_threads

from tg_crepe import CrepePropagation, GraphWarning, Recipe, get_energy_model, knn_graph
from tg_crepe.distributed import Shard, Traffic
from tg_crepe.distributed.inference import part_graph
from tg_crepe.energy.constraint import LabelCoupling
from tg_crepe.graph import canonical_graph
from tg_crepe.inference import match_volumes
from tg_crepe.models.registry import ENERGY_MODELS
from tg_crepe.solvers.backends import make_backend
from tg_crepe.solvers.problem import InnerProblem

#: How far from the result of one process, relative to the largest value.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-10}

WORLDS = [1, 2, 3, 4, 8]


def alone(model, problem: SharedProblem, u0=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return model.propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight, u0=u0)


def together(model, problem: SharedProblem, world_size: int, owner=None, u0=None):
    owner = problem.owner(world_size) if owner is None else owner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return infer_on_threads(
            model, world_size, problem.edge_index, problem.edge_weight, problem.y, problem.mask, owner, u0
        )


def assert_same(found: dict[str, torch.Tensor], expected, tolerance: float) -> None:
    assert torch.equal(found["label"], expected.label)
    assert torch.equal(found["reached"], expected.reached)
    # Probabilities are pooled as labels that are left out say, for which solvers end by a loose tolerance.
    for name, atol in (("u", tolerance), ("prob", 10 * tolerance + 1e-4), ("certainty", 10 * tolerance + 1e-4)):
        value = getattr(expected, name)
        torch.testing.assert_close(found[name], value, atol=atol * float(value.abs().max()), rtol=0)


def fixed_flow(constants: dict[str, object] | None = None, **options: object) -> CrepePropagation:
    """The flow from a given start with a fixed number of iterations, without a solver that stops by a tolerance."""
    return CrepePropagation(Recipe(reweight_rounds=0, **(constants or {})), class_volume="uniform", **options)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("make", [moons, digits])
def test_the_flow_is_that_of_one_process_on_any_number_of_ranks(make, dtype):
    problem = make(dtype)
    expected = alone(fixed_flow(), problem, problem.start())
    for world_size in WORLDS:
        found, _ = together(fixed_flow(), problem, world_size, u0=problem.start())
        assert_same(found, expected, TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_flow_on_many_nodes_is_that_of_one_process(dtype, data_root):
    problem = fashion(data_root, dtype)
    expected = alone(fixed_flow(), problem, problem.start())
    for world_size in WORLDS:
        found, _ = together(fixed_flow(), problem, world_size, problem.blocks(world_size), problem.start())
        assert torch.equal(found["label"], expected.label)
        largest = float(expected.u.abs().max())
        torch.testing.assert_close(found["u"], expected.u, atol=TOLERANCE[dtype] * largest, rtol=0)
        # Soft labels are as sharp as the labels allow, which multiplies the differences.
        torch.testing.assert_close(found["prob"], expected.prob, atol=10 * TOLERANCE[dtype], rtol=0)


def fashion(root: os.PathLike[str], dtype: torch.dtype) -> SharedProblem:
    """20,000 Fashion-MNIST images as raw pixels, five labels per class."""
    x, y = fashion_images(root)
    edge_index, edge_weight = knn_graph(x.to(dtype), 20, "cosine")
    mask = torch.zeros(20_000, dtype=torch.bool)
    for label in range(10):
        mask[(y == label).nonzero().view(-1)[:5]] = True
    return SharedProblem(edge_index, edge_weight, y, mask)


@pytest.mark.parametrize("name", [name for name in ENERGY_MODELS if name in ("lgc", "harmonic", "random_walk", "wnll")])
def test_a_quadratic_model_is_that_of_one_process(name):
    problem = moons(torch.float64)
    model = get_energy_model(name, tol=1e-12)
    expected = alone(model, problem)
    for world_size in (2, 3):
        assert_same(together(model, problem, world_size)[0], expected, 1e-10)


@pytest.mark.parametrize("name", ["crepe", "poisson", "poisson_mbo"])
def test_what_ends_by_a_tolerance_has_the_same_labels(name):
    problem = moons(torch.float64)
    model = get_energy_model(name)
    assert_same(together(model, problem, 3)[0], alone(model, problem), 1e-5)


@pytest.mark.slow
def test_one_label_per_class_is_balanced_over_all_ranks():
    problem = moons(torch.float64, num_nodes=80, labels=1)
    model = CrepePropagation()
    assert_same(together(model, problem, 2)[0], alone(model, problem), 1e-5)


@pytest.mark.parametrize("shared", [0, 10_000], ids=["by counts", "by all scores"])
def test_class_volumes_are_matched_over_all_ranks(monkeypatch, shared):
    monkeypatch.setattr(match_volumes, "_SHARED", shared)
    problem = digits(torch.float64, num_nodes=150, labels=2)
    model = get_energy_model("lgc", tol=1e-12, bind_volume="uniform")
    assert_same(together(model, problem, 3)[0], alone(model, problem), 1e-9)


def test_findings_are_inferred_over_all_ranks():
    problem = moons(torch.float64, num_nodes=80)
    findings = torch.stack([problem.y == 0, problem.y == 1, problem.y >= 0], dim=1).double()
    problem = SharedProblem(problem.edge_index, problem.edge_weight, findings, problem.mask)
    for model in (get_energy_model("harmonic", tol=1e-12), CrepePropagation()):
        assert_same(together(model, problem, 2, problem.blocks(2))[0], alone(model, problem), 1e-5)


def test_islands_and_ranks_without_a_reached_node_are_no_obstacle():
    problem = islands()
    owner = problem.blocks(2)
    owner[80:] = 2  # nothing of this rank is solved
    model = get_energy_model("lgc", tol=1e-12)
    expected = alone(model, problem)
    assert int((~expected.reached).sum()) == 4
    assert_same(together(model, problem, 3, owner)[0], expected, 1e-10)
    assert_same(together(fixed_flow(), problem, 3, owner)[0], alone(fixed_flow(), problem), 1e-5)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_every_backend_runs_on_parts(backend):
    problem = moons(torch.float64)
    model = fixed_flow(backend=backend)
    expected = alone(model, problem, problem.start())
    assert_same(together(model, problem, 3, u0=problem.start())[0], expected, 1e-10)


def iterated(problem: SharedProblem, world_size: int, backend: str, iterations: int):
    """The dual of every directed edge after some iterations, by the numbers of its nodes, and the traffic of them."""
    owner = problem.blocks(world_size)

    def job(transport: ThreadTransport):
        shard = Shard.from_graph(problem.edge_index, problem.edge_weight, owner, transport.rank, world_size)
        traffic = Traffic()
        graph = part_graph(shard, traffic=traffic, transport=transport)
        u = problem.start()[shard.node_id]
        inner = InnerProblem(
            u, torch.zeros_like(u), 1.0, LabelCoupling(torch.where(problem.mask, problem.y, -1)[shard.node_id], 0.5),
            graph.communicator,
        )  # fmt: skip
        solver = make_backend(backend, graph)
        state = solver.start(u)
        before = Traffic(**vars(traffic))
        for _ in range(iterations):
            state = solver.iterate(state, inner, 1.0, 0.5)
        told = traffic.since(before)
        certificate = solver.certificate(state, inner)
        rowptr, col, _ = graph.csr_pattern
        number = graph.communicator.number
        row = torch.repeat_interleave(torch.arange(graph.num_nodes), rowptr.diff().long())
        keys = zip(number[row].tolist(), number[col.long()].tolist(), strict=True)
        return dict(zip(keys, solver.by_slot(state.dual), strict=True)), told, shard, certificate

    return run_threads(world_size, job)


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
def test_the_two_copies_of_the_dual_are_exact_negatives_also_between_ranks(backend):
    parts = iterated(moons(torch.float32), 3, backend, iterations=30)
    dual = {key: value for part, *_ in parts for key, value in part.items()}
    assert len(dual) == sum(len(part) for part, *_ in parts)
    assert any(float(value.abs().max()) < 1 for value in dual.values())
    for (i, j), value in dual.items():
        assert torch.equal(value, -dual[j, i])
    gaps = {float(certificate.gap) for *_, certificate in parts}
    assert len(gaps) == 1  # all ranks decide alike
    assert gaps.pop() >= 0


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_an_iteration_tells_each_halo_row_once_and_reduces_nothing(dtype):
    problem, iterations = digits(dtype), 7
    parts = iterated(problem, 3, "numba", iterations)
    halo = sum(shard.num_halo for _, _, shard, _ in parts)
    told = sum(traffic.bytes_sent + traffic.bytes_received for _, traffic, *_ in parts)
    size = torch.finfo(dtype).bits // 8
    assert halo > 0
    assert told == iterations * 2 * halo * problem.num_classes * size
    for _, traffic, shard, _ in parts:
        assert traffic.exchanges == iterations
        assert traffic.reductions == 0
        assert traffic.bytes_received == iterations * shard.num_halo * problem.num_classes * size


def test_a_whole_flow_reduces_at_most_three_scalars_an_iteration_beside_its_outer_steps():
    """Looks at the gap come every ten iterations and reduce L + 5 numbers; outer steps have their own sums."""
    problem = digits()
    models = (fixed_flow({"inner_iterations": n}) for n in (10, 40))
    short, long = (together(model, problem, 2, u0=problem.start())[1][0] for model in models)
    iterations = long.exchanges - short.exchanges
    assert iterations >= 6 * 30
    assert long.reductions - short.reductions <= 3 * iterations


@pytest.mark.filterwarnings("ignore::tg_crepe.ConvergenceWarning")
def test_an_outer_step_reduces_what_is_due_together_in_one_message():
    problem = digits()
    # The paper's soft labels: how often the search for a temperature looks depends on the scores.
    models = (fixed_flow({"time_step": 1.0, "max_steps": n}, soft_label="relative") for n in (2, 6))
    few, more = (together(model, problem, 2, u0=problem.start())[1][0] for model in models)
    # The sums of H, q and the step, the norm and the violations, four digits of the quantile and a look at the gap.
    assert more.reductions - few.reductions <= 4 * 13


def test_components_and_degrees_are_those_of_the_whole_graph():
    problem = islands()
    graph, _ = canonical_graph(problem.edge_index, problem.edge_weight, problem.y.size(0))
    owner = problem.owner(3)

    def job(transport: ThreadTransport):
        shard = Shard.from_graph(problem.edge_index, problem.edge_weight, owner, transport.rank, 3)
        part = part_graph(shard, transport=transport)
        number = part.communicator.number
        assert torch.equal(part.communicator.halo(number[: part.num_nodes]), number)
        assert (part.total_nodes, part.num_components) == (graph.num_nodes, int(graph.component.max()) + 1)
        volume = part.communicator.sum(part.counted_weight.sum())
        x = graph.degree[number[: part.num_nodes]].unsqueeze(-1)
        return number[: part.num_nodes], part.component, part.degree, part.multiply(x), float(volume)

    for number, component, degree, product, volume in run_threads(3, job):
        assert torch.equal(component, graph.component[number])
        torch.testing.assert_close(degree, graph.degree[number])
        torch.testing.assert_close(product, (graph.adjacency @ graph.degree.unsqueeze(-1))[number])
        assert math.isclose(volume, float(graph.edge_weight.sum()), rel_tol=1e-12)
