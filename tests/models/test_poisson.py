import numpy as np
import pytest
import torch
from helpers import moons, random_graph
from hypothesis import given
from hypothesis import strategies as st
from label_problems import LabelProblem, assert_close, label_problem, label_problems

from tg_crepe import GraphWarning, Poisson
from tg_crepe.graph import CanonicalGraph


def dense_poisson(problem: LabelProblem) -> np.ndarray:
    """The pseudo-inverse of the Laplacian, shifted to degree-weighted mean zero."""
    known = ~problem.free
    source = np.where(known[:, None], problem.onehot - problem.onehot[known].mean(axis=0), 0)
    degree = problem.w.sum(axis=1)
    u = np.linalg.pinv(problem.laplacian / degree.max()) @ source / degree.max()
    return u - degree @ u / degree.sum()


def union(*graphs: CanonicalGraph) -> CanonicalGraph:
    """Several graphs side by side."""
    start = np.cumsum([0, *[g.num_nodes for g in graphs]])
    edge_index = torch.cat([g.edge_index + int(s) for g, s in zip(graphs, start, strict=False)], dim=1)
    return CanonicalGraph(edge_index, torch.cat([g.edge_weight for g in graphs]), int(start[-1]))


@given(problem=label_problems())
def test_equals_the_dense_pseudo_inverse(problem):
    expected = dense_poisson(problem)
    result = Poisson(tol=1e-12).propagate(problem.y, problem.graph.adjacency)
    assert_close(result.u, expected)
    free = problem.free
    assert (result.label.numpy()[free] == expected.argmax(axis=1)[free]).all()


@given(seed=st.integers(0, 10_000))
def test_every_component_is_a_problem_of_its_own(seed):
    parts = [label_problem(seed), label_problem(seed + 1)]
    graph, y = union(*[p.graph for p in parts]), torch.cat([p.y for p in parts])
    u = Poisson(tol=1e-12).propagate(y, graph.adjacency).u
    for part, found in zip(parts, u.split(15), strict=True):
        assert_close(found, dense_poisson(part))


def test_a_component_without_labels_disturbs_nobody():
    problem = label_problem(0)
    graph = union(problem.graph, random_graph(7, num_nodes=8))
    y = torch.cat([problem.y, torch.full((8,), -1)])
    with pytest.warns(GraphWarning, match=r"8 node\(s\) lie in components without a label"):
        result = Poisson(tol=1e-12).propagate(y, graph.adjacency)
    assert_close(result.u[:15], dense_poisson(problem))
    assert result.label[15:].tolist() == [-1] * 8
    assert float(result.u[15:].abs().max()) == 0


def test_a_component_with_labels_of_one_class_gets_that_class():
    problem = label_problem(0)
    graph = union(problem.graph, random_graph(7, num_nodes=8))
    y = torch.cat([problem.y, torch.full((8,), -1)])
    y[15], y[18] = 1, 1
    result = Poisson(tol=1e-12).propagate(y, graph.adjacency)
    assert result.status == "converged"
    assert_close(result.u[:15], dense_poisson(problem))
    assert result.label[15:].tolist() == [1] * 8
    assert torch.equal(result.prob.argmax(dim=1), result.label)
    assert bool(torch.isfinite(result.prob).all())


def test_components_of_one_class_each_need_no_solve():
    graph = union(random_graph(1, num_nodes=8), random_graph(2, num_nodes=8))
    y = torch.full((16,), -1)
    y[0], y[9] = 1, 0
    result = Poisson().propagate(y, graph.adjacency)
    assert result.label.tolist() == [1] * 8 + [0] * 8
    assert result.status == "converged"
    assert torch.equal(result.prob.argmax(dim=1), result.label)


def test_a_class_without_a_label_in_a_component_is_not_chosen_there():
    graph = union(random_graph(1, num_nodes=10), label_problem(0).graph)
    y = torch.cat([torch.full((10,), -1), label_problem(0).y])
    y[0], y[5] = 1, 2
    result = Poisson().propagate(y, graph.adjacency)
    assert set(result.label[:10].tolist()) <= {1, 2}
    assert bool((result.prob[:10, 0] <= result.prob[:10].amin(dim=1) + 1e-12).all())


def test_findings_have_their_own_known_nodes_and_components():
    first, second = label_problem(0), random_graph(7, num_nodes=8)
    graph = union(first.graph, second)
    findings = torch.full((23, 3), -1)
    findings[:15, 0] = first.y.clamp(max=1)
    findings[15, 0] = 1  # the only known entry of its component
    findings[2, 1], findings[9, 1] = 1, 0  # nothing known in the second component
    findings[3, 2], findings[16, 2] = 0, 1  # one kind in either component
    result = Poisson(tol=1e-12).propagate(findings, graph.adjacency)
    known = ~first.free
    value = np.where(known, first.y.clamp(max=1).numpy(), 0)
    source = np.where(known, value - value[known].mean(), 0)
    degree = first.w.sum(axis=1)
    expected = np.linalg.pinv(first.laplacian) @ source
    assert_close(result.u[:15, 0], expected - degree @ expected / degree.sum())
    assert result.label[15:, 0].tolist() == [1] * 8
    assert result.u[15:, 1].tolist() == [0.0] * 8
    torch.testing.assert_close(result.prob[15:, 1], torch.full((8,), 0.5, dtype=torch.float64))
    assert result.label[:, 2].tolist() == [0] * 15 + [1] * 8


def test_single_precision_does_not_spoil_a_weak_bridge():
    halves = [moons(s, num_nodes=100)[0] for s in (0, 1)]
    graph = union(*halves)
    edge_index = torch.cat([graph.edge_index, torch.tensor([[0], [100]])], dim=1)
    weight = torch.cat([graph.edge_weight, torch.tensor([1e-6], dtype=torch.float64)]).repeat(2)
    both_ways = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    y = torch.full((200,), -1)
    y[5], y[105] = 0, 1
    exact = Poisson().propagate(y, both_ways, edge_weight=weight)
    single = Poisson().propagate(y, both_ways, edge_weight=weight.float())
    assert single.status == exact.status == "converged"
    assert single.u.dtype == torch.float32
    torch.testing.assert_close(single.u.double(), exact.u, rtol=1e-3, atol=1e-3 * float(exact.u.abs().max()))
    assert exact.label.tolist() == [0] * 100 + [1] * 100


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match="'tol' must be"):
        Poisson(tol=0)
    assert repr(Poisson()) == "Poisson()"
