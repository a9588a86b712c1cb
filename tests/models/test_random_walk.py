import numpy as np
import pytest
import torch
from hypothesis import given
from label_problems import assert_close, label_problem, label_problems

from tg_crepe import LGC, RandomWalk


@pytest.mark.parametrize("alpha", [0.5, 0.95, 0.99])
@given(problem=label_problems())
def test_equals_the_dense_solve(alpha, problem):
    expected = np.linalg.solve(np.diag(problem.w.sum(axis=1)) - alpha * problem.w, problem.onehot)
    result = RandomWalk(alpha=alpha, tol=1e-12).propagate(problem.y, problem.graph.adjacency)
    assert_close(result.u, expected)
    free = problem.free
    assert (result.label.numpy()[free] == expected.argmax(axis=1)[free]).all()


def test_it_is_lgc_on_a_graph_of_equal_degrees_and_differs_elsewhere():
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    edge_index = torch.cat([ring, ring.flip(0)], dim=1)
    y = torch.tensor([0, -1, -1, -1, 1, -1, -1, -1, -1])
    walk = RandomWalk(alpha=0.9, tol=1e-6).propagate(y, edge_index)
    lgc = LGC(alpha=0.9, tol=1e-6).propagate(y, edge_index)
    torch.testing.assert_close(2 * walk.u, lgc.u)
    problem = label_problem(0)
    walk = RandomWalk(alpha=0.9).propagate(problem.y, problem.graph.adjacency).u
    lgc = LGC(alpha=0.9).propagate(problem.y, problem.graph.adjacency).u
    assert not torch.allclose(walk / walk.sum(), lgc / lgc.sum(), rtol=0.01)


def test_a_finding_is_solved_as_two_classes():
    problem = label_problem(0)
    y = torch.where(problem.y == 2, 0, problem.y)
    findings = torch.stack([y, torch.where(y >= 0, 1 - y, -1)], dim=1)
    classes = RandomWalk(tol=1e-10).propagate(y, problem.graph.adjacency)
    separate = RandomWalk(tol=1e-10).propagate(findings, problem.graph.adjacency)
    assert torch.equal(separate.label[:, 0], classes.label)
    torch.testing.assert_close(separate.u.flip(1), classes.u / classes.u.sum(dim=1, keepdim=True), atol=1e-6, rtol=0)


def test_options_are_checked_and_shown():
    with pytest.raises(ValueError, match=r"'alpha' must lie in \(0, 1\), got 1.5"):
        RandomWalk(alpha=1.5)
    with pytest.raises(ValueError, match="'tol' must be"):
        RandomWalk(tol=0)
    assert repr(RandomWalk()) == "RandomWalk(alpha=0.95)"
