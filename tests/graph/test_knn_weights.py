import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.graph.knn import KERNELS, neighbor_weight


def ascending_distances(seed, num_nodes=20, k=5):
    return torch.from_numpy(np.sort(np.random.default_rng(seed).exponential(size=(num_nodes, k)), axis=1))


def not_needed():
    pytest.fail("the similarity was computed for a kernel that does not use it")


def test_gaussian_weights_are_self_tuned():
    distance = ascending_distances(0)
    expected = [[np.exp(-4 * d**2 / row[-1] ** 2) for d in row] for row in distance.numpy()]
    np.testing.assert_allclose(neighbor_weight("gaussian", distance, not_needed).numpy(), expected, rtol=1e-14)


@given(seed=st.integers(0, 10_000), power=st.integers(-900, 900))
def test_gaussian_weights_do_not_know_the_unit_of_distance(seed, power):
    distance = ascending_distances(seed)
    expected = neighbor_weight("gaussian", distance, not_needed)
    assert torch.equal(neighbor_weight("gaussian", distance * 2.0**power, not_needed), expected)


def test_the_kth_neighbour_has_the_smallest_gaussian_weight():
    weight = neighbor_weight("gaussian", ascending_distances(1), not_needed)
    np.testing.assert_allclose(weight[:, -1].numpy(), np.exp(-4), rtol=1e-14)
    assert bool((weight.diff(dim=1) <= 0).all())


def test_duplicate_points_have_gaussian_weight_one():
    distance = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    weight = neighbor_weight("gaussian", distance, not_needed)
    np.testing.assert_allclose(weight.numpy(), [[1, 1, 1], [1, 1, np.exp(-4)]], rtol=1e-14)


def test_cosine_weights_are_the_similarity_where_positive():
    similarity = torch.tensor([[0.9, 0.0, -0.3]], dtype=torch.float64)
    weight = neighbor_weight("cosine", torch.ones(1, 3).double(), lambda: similarity)
    assert weight.tolist() == [[0.9, 0.0, 0.0]]
    assert similarity.tolist() == [[0.9, 0.0, -0.3]]


def test_uniform_weights_are_one():
    assert neighbor_weight("uniform", ascending_distances(2), not_needed).tolist() == [[1.0] * 5] * 20


@pytest.mark.parametrize("kernel", KERNELS)
def test_distances_are_not_modified(kernel):
    distance = ascending_distances(3)
    before = distance.clone()
    neighbor_weight(kernel, distance, lambda: -distance)
    assert torch.equal(distance, before)
