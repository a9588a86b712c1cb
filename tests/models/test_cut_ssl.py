import itertools

import cvxpy as cp
import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph

from tg_crepe import ConvergenceWarning, CutSSL


def few_labels(y: torch.Tensor, count: int) -> torch.Tensor:
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    for c in y.unique():
        mask[(y == c).nonzero().view(-1)[:count]] = True
    return mask


def least_cut(w: np.ndarray, y: torch.Tensor, mask: torch.Tensor, sizes: np.ndarray) -> np.ndarray:
    """The convex program at s = 0, by an interior point method."""
    free, known = (~mask).numpy(), mask.numpy()
    laplacian = np.diag(w.sum(axis=1)) - w
    onehot = np.eye(len(sizes))[y.numpy()[known]]
    x = cp.Variable((int(free.sum()), len(sizes)))
    root = np.linalg.cholesky(laplacian[np.ix_(free, free)]).T
    cost = cp.sum_squares(root @ x) / 2 - cp.sum(cp.multiply(w[np.ix_(free, known)] @ onehot, x))
    wanted = sizes - onehot.sum(axis=0)
    cp.Problem(cp.Minimize(cost), [x >= 0, cp.sum(x, axis=1) == 1, cp.sum(x, axis=0) == wanted]).solve(
        solver=cp.CLARABEL
    )
    return x.value


@pytest.mark.parametrize("seed", range(3))
def test_without_concavity_it_is_the_convex_program(seed):
    graph, y = clusters(seed, num_nodes=60, spread=4.0)
    mask, sizes = few_labels(y, 2), np.array([30.0, 20.0, 10.0])
    model = CutSSL(concavity=[0.0], max_steps=[5000], tol=1e-9, bind_volume=torch.from_numpy(sizes))
    result = model.propagate(y, graph.adjacency, mask)
    expected = least_cut(dense_adjacency(graph), y, mask, sizes)
    assert float((expected < 1e-6).mean()) > 0.05  # the bounds are at work
    np.testing.assert_allclose(result.u[~mask].numpy(), expected, atol=2e-5)


def test_where_no_bound_is_active_it_is_laplace_learning_with_a_multiplier_per_class():
    graph = random_graph(0, num_nodes=12)
    y = torch.tensor([0, 1, 0, 1] + [-1] * 8)
    result = CutSSL(concavity=[0.0], max_steps=[5000], tol=1e-9).propagate(y, graph.adjacency)
    w = dense_adjacency(graph)
    inverse = np.linalg.inv((np.diag(w.sum(axis=1)) - w)[4:, 4:])
    laplace, one = inverse @ w[4:, :4] @ np.eye(2)[[0, 1, 0, 1]], inverse.sum(axis=1)
    expected = laplace + np.outer(one, (4 - laplace.sum(axis=0)) / one.sum())
    assert expected.min() > 0
    np.testing.assert_allclose(result.u[4:].numpy(), expected, atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_concavity_finds_the_least_cut_of_all_partitions(seed):
    rng = np.random.default_rng(seed)
    truth = np.array([0, 1, 2] + [0] * 3 + [1] * 2 + [2] * 2)
    w = np.triu(np.where(truth[:, None] == truth, 1.0, 0.25) * rng.uniform(0.5, 1, (10, 10)), 1)
    w = w + w.T
    y = torch.tensor([0, 1, 2] + [-1] * 7)
    sizes = torch.tensor([4.0, 3.0, 3.0], dtype=torch.float64)
    model = CutSSL(concavity=[0.0, 0.3, 0.6, 0.9], max_steps=[500] * 4, tol=1e-6, bind_volume=sizes)
    result = model.propagate(y, torch.from_numpy(w).to_sparse_coo())
    labels = [
        np.array([0, 1, 2, *rest])
        for rest in itertools.product(range(3), repeat=7)
        if np.bincount([0, 1, 2, *rest], minlength=3).tolist() == [4, 3, 3]
    ]
    cuts = [w[label[:, None] != label].sum() for label in labels]
    assert result.label.tolist() == labels[int(np.argmin(cuts))].tolist()
    torch.testing.assert_close(result.u.amax(dim=1), torch.ones(10, dtype=result.u.dtype), atol=1e-4, rtol=0)


def test_a_finding_is_a_partition_into_two_classes():
    graph, y = clusters(2, num_nodes=60, spread=3.0)
    y = (y == 0).long()
    mask = few_labels(y, 3)
    share = torch.tensor([0.6, 0.4], dtype=torch.float64)
    options = {"concavity": [0.0, 0.1], "max_steps": [3000, 3000], "tol": 1e-8}
    exclusive = CutSSL(bind_volume=share, **options).propagate(y, graph.adjacency, mask)
    finding = torch.where(mask, y, -1).unsqueeze(1).repeat(1, 2)
    result = CutSSL(bind_volume=share[[1, 1]], **options).propagate(finding, graph.adjacency)
    torch.testing.assert_close(result.u[:, 0], exclusive.u[:, 1], atol=1e-5, rtol=0)
    assert torch.equal(result.label[:, 0], exclusive.label)


def test_every_class_has_its_volume():
    graph, y = clusters(1, num_nodes=90)
    result = CutSSL(bind_volume=torch.bincount(y).double()).propagate(y, graph.adjacency, few_labels(y, 2))
    assert result.status == "converged"
    assert torch.bincount(result.label).tolist() == torch.bincount(y).tolist()
    assert result.trace["concavity"].unique().tolist() == pytest.approx([0.0, 0.1])


def test_nothing_is_left_to_do_where_all_nodes_are_labelled():
    graph, y = clusters(1, num_nodes=60)
    result = CutSSL().propagate(y, graph.adjacency)
    assert result.status == "converged"
    assert torch.equal(result.label, y)


def test_a_limit_is_told():
    graph, y = clusters(1, num_nodes=60)
    with pytest.warns(ConvergenceWarning, match="step_limit"):
        CutSSL(max_steps=(1, 1)).propagate(y, graph.adjacency, few_labels(y, 2))


def test_options_are_checked():
    with pytest.raises(ValueError, match="'bind_volume' must be"):
        CutSSL(bind_volume=None)
    with pytest.raises(ValueError, match=r"'concavity' must hold numbers in \[0, 1\), one at least, got \(0.0, 1.5\)"):
        CutSSL(concavity=(0.0, 1.5))
    with pytest.raises(ValueError, match="'max_steps' must hold a limit for each"):
        CutSSL(max_steps=(100,))


@pytest.mark.parametrize("option", [{"concavity": 0.1}, {"max_steps": 100}, {"concavity": None}])
def test_a_number_in_the_place_of_a_sequence_is_named(option):
    with pytest.raises(ValueError, match="'concavity' and 'max_steps' must be sequences of the same length, got"):
        CutSSL(**option)
