"""Rows searched as codes: what they find, when they are taken, and that nothing but time depends on them."""

import numpy as np
import pytest
import torch

from tg_crepe.graph import inverted_lists
from tg_crepe.graph.approximate import approximate_neighbors
from tg_crepe.graph.compressed_lists import CompressedLists
from tg_crepe.graph.inverted_lists import InvertedLists
from tg_crepe.graph.neighbors import nearest_neighbors

faiss = pytest.importorskip("faiss", reason="the lists are those of faiss (extra 'knn')")

K = 10


@pytest.fixture
def always(monkeypatch):
    """Codes for however few rows, and the indexes that were searched."""
    monkeypatch.setattr(inverted_lists, "_COMPRESSED_FROM", 0)
    monkeypatch.setattr(inverted_lists, "_RANKING", 0)
    searched, search = [], InvertedLists.search

    def told(self, probes):
        searched.append(type(self.index).__name__)
        return search(self, probes)

    monkeypatch.setattr(InvertedLists, "search", told)
    return searched


def blobs(num_nodes=5_000, features=16, seed=0):
    """Overlapping clusters that fill few of the dimensions, as features do."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(num_nodes, 4, generator=generator)
    z += 2 * torch.randn(10, 4, generator=generator)[torch.arange(num_nodes) % 10]
    noise = torch.randn(num_nodes, features, generator=generator)
    return z @ torch.randn(4, features, generator=generator) + 0.1 * noise


def make_lists(x):
    lists = InvertedLists(x, K)
    return lists, CompressedLists(lists.centres, lists.points, lists.list)


@pytest.mark.parametrize("features", [16, 33, 100])
@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_codes_find_the_wanted_share_of_the_neighbours_at_their_own_distances(always, features, recall):
    x = blobs(features=features)
    neighbor, distance, note, measured = approximate_neighbors(x, K, recall, 256.0)
    assert always == ["IndexIVFPQFastScan"]
    assert note.startswith("approximate neighbours")
    true = nearest_neighbors(x, K, "torch", 256.0)[1]
    share = float((distance <= true[:, -1:]).double().mean())
    assert min(share, measured) >= recall - 0.001
    exact = (x.double().unsqueeze(1) - x.double()[neighbor]).norm(dim=2)
    torch.testing.assert_close(distance, exact, rtol=1e-12, atol=0)
    assert not bool((neighbor == torch.arange(len(x)).unsqueeze(1)).any())
    assert bool((neighbor.sort(dim=1)[0].diff(dim=1) > 0).all())


def test_codes_find_the_same_with_one_thread_and_with_two(always):
    x, before, found = blobs(12_000), faiss.omp_get_max_threads(), []
    try:
        for threads in (1, 2):
            faiss.omp_set_num_threads(threads)
            found.append(approximate_neighbors(x, K, 0.95, 256.0))
    finally:
        faiss.omp_set_num_threads(before)
    assert always == ["IndexIVFPQFastScan"] * 2
    assert torch.equal(found[0].neighbor, found[1].neighbor)
    assert torch.equal(found[0].distance, found[1].distance)


@pytest.mark.parametrize("recall", [0.5, 0.8, 0.95])
def test_the_fewest_candidates_that_are_enough_are_taken(recall):
    x = blobs(features=64)
    lists, codes = make_lists(x)
    rows = np.arange(0, 5_000, 25)
    near = nearest_neighbors(x, K, "torch", 256.0, torch.from_numpy(rows))[0].numpy()
    count = codes.enough(rows, near, 20, 6, recall)
    codes.index.nprobe = 20

    def share(number):
        found = codes.index.search(lists.points[rows], number)[1]
        return np.mean([np.isin(own, others).mean() for own, others in zip(near, found, strict=True)])

    assert share(count) >= recall
    assert count == 12 or share(count // 2) < recall


def test_rows_that_codes_cannot_tell_apart_are_searched_as_they_are(always):
    generator = torch.Generator().manual_seed(0)
    place = torch.randn(4, 16, generator=generator)[torch.arange(8_000) % 4]
    x = place + 1e-3 * torch.randn(8_000, 16, generator=generator)  # 2,000 rows near each of four places
    lists, codes = make_lists(x)
    sample = torch.arange(0, 8_000, 80)
    near = nearest_neighbors(x, K, "torch", 256.0, sample)[0]
    assert codes.enough(sample.numpy(), near.numpy(), lists.index.nlist, K + 1, 0.99) is None
    approximate_neighbors(x, K, 0.99, 256.0)
    assert "IndexIVFPQFastScan" not in always


def test_fewer_rows_than_candidates_need_no_codes():
    x = blobs(num_nodes=40)
    _, codes = make_lists(x)
    rows = np.arange(10)
    near = nearest_neighbors(x, 30, "torch", 256.0, torch.from_numpy(rows))[0].numpy()
    assert codes.enough(rows, near, 5, 31, 0.9) is None


@pytest.mark.parametrize(("features", "name"), [(15, "IndexIVFPQFastScan"), (14, "IndexIVFFlat")])
def test_few_features_are_no_codes(always, features, name):  # of 15 there are 16, with one of zeros
    approximate_neighbors(blobs(features=features), K, 0.9, 256.0)
    assert always == [name]


def test_codes_are_left_where_lists_hold_few_rows():
    x = blobs()
    sample = torch.arange(0, 5_000, 5)
    lists = InvertedLists(x, K)
    lists.probes(sample, nearest_neighbors(x, K, "torch", 256.0, sample)[0], 0.99)
    assert type(lists.index).__name__ == "IndexIVFFlat"
    assert lists.count == K + 9
