import itertools

import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, random_graph

from tg_crepe import ConvergenceWarning, VolumeMBO


def few_labels(y: torch.Tensor, count: int) -> torch.Tensor:
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    for c in y.unique():
        mask[(y == c).nonzero().view(-1)[:count]] = True
    return mask


def dense_kernel(graph) -> np.ndarray:
    w = dense_adjacency(graph)
    root = np.sqrt(w.sum(axis=1))
    return np.linalg.matrix_power(w / root[:, None] / root, 2)


def assignments(known: np.ndarray, sizes: list[int]) -> np.ndarray:
    """All labels of a few nodes with the known ones (-1 elsewhere) and the given sizes, a row each."""
    found = np.array(list(itertools.product(range(len(sizes)), repeat=len(known))))
    fits = (found == known)[:, known >= 0].all(axis=1)
    counts = np.stack([(found == c).sum(axis=1) for c in range(len(sizes))], axis=1)
    return found[fits & (counts == sizes).all(axis=1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_labels_are_the_best_assignment_for_their_own_heat(seed):
    graph, sizes = random_graph(seed, num_nodes=9), [4, 3, 2]
    y = torch.tensor([0, 1, 2, -1, -1, -1, -1, -1, -1])
    result = VolumeMBO(bind_volume=torch.tensor(sizes, dtype=torch.float64)).propagate(y, graph.adjacency)
    assert result.status == "converged"
    assert torch.bincount(result.label).tolist() == sizes
    heat = dense_kernel(graph) @ np.eye(3)[result.label.numpy()]
    np.testing.assert_allclose(result.u.numpy(), heat, atol=1e-12)
    totals = heat[np.arange(9), assignments(y.numpy(), sizes)].sum(axis=1)
    assert heat[np.arange(9), result.label.numpy()].sum() == pytest.approx(totals.max())


def test_two_clusters_with_a_weak_bridge_are_the_least_energy_of_all_partitions():
    weight = np.zeros((10, 10))
    for block in (range(4), range(4, 10)):
        for i, j in itertools.combinations(block, 2):
            weight[i, j] = weight[j, i] = 1 + 0.1 * ((i * j) % 3)
    weight[3, 4] = weight[4, 3] = 0.2
    y = torch.full((10,), -1)
    y[0], y[9] = 0, 1
    result = VolumeMBO(bind_volume=torch.tensor([4.0, 6.0])).propagate(y, torch.from_numpy(weight).to_sparse_coo())
    root = np.sqrt(weight.sum(axis=1))
    kernel = np.linalg.matrix_power(weight / root[:, None] / root, 2)
    candidates = assignments(y.numpy(), [4, 6])
    energy = [sum((label != c) @ kernel @ (label == c) for c in range(2)) for label in candidates]
    assert result.label.tolist() == candidates[int(np.argmin(energy))].tolist()


def test_without_noise_no_step_raises_the_energy():
    lengths = []
    for seed in range(4):
        graph, y = clusters(seed, num_nodes=200, spread=3.0)
        result = VolumeMBO(temperature=0).propagate(y, graph.adjacency, few_labels(y, 1))
        kept, kernel, state = result.trace["kept"], dense_kernel(graph), np.eye(3)[result.label.numpy()]
        assert float(kept[-1]) == pytest.approx((state * (kernel @ state)).sum() / kernel.sum())
        assert bool((kept.diff() >= -1e-12).all())
        assert int(result.trace["changed"][-1]) == 0
        lengths.append(len(kept))
    assert max(lengths) > 3


def test_noise_falls_to_zero_and_is_the_same_twice():
    graph, y = clusters(3, num_nodes=120, spread=4.0)
    mask = few_labels(y, 1)
    first, again = (VolumeMBO().propagate(y, graph.adjacency, mask) for _ in range(2))
    assert torch.equal(first.prob, again.prob)
    assert len(first.trace) > 20
    other = VolumeMBO(seed=1).propagate(y, graph.adjacency, mask)
    assert not torch.equal(first.trace["changed"][:5], other.trace["changed"][:5])


def test_a_finding_is_a_partition_into_two():
    graph, y = clusters(1, num_nodes=90)
    mask = few_labels(y, 4)
    findings = torch.where(mask.unsqueeze(1), torch.eye(3, dtype=torch.long)[y], -1)
    volume = torch.bincount(y).double() / 90
    result = VolumeMBO(bind_volume=volume).propagate(findings, graph.adjacency)
    assert result.label.sum(dim=0).tolist() == torch.bincount(y).tolist()
    assert float((result.label.argmax(dim=1) == y).double().mean()) > 0.9


def test_a_limit_is_told():
    graph, y = clusters(1, num_nodes=60)
    with pytest.warns(ConvergenceWarning, match="step_limit"):
        VolumeMBO(max_steps=2).propagate(y, graph.adjacency, few_labels(y, 2))


def test_options_are_checked():
    with pytest.raises(ValueError, match="'bind_volume' must be"):
        VolumeMBO(bind_volume=None)
    with pytest.raises(ValueError, match="'temperature' must be a number >= 0, got -1"):
        VolumeMBO(temperature=-1)
    with pytest.raises(ValueError, match="'max_steps' must be"):
        VolumeMBO(max_steps=0)
