import re

import pytest
import torch

from tg_crepe.graph import approximate
from tg_crepe.graph.approximate import approximate_neighbors
from tg_crepe.graph.neighbors import nearest_neighbors

K = 10


@pytest.fixture(autouse=True, params=["inverted lists", "cells"])
def search(request, monkeypatch):
    """Both searches: that of faiss, and the one without it."""
    if request.param == "inverted lists":
        pytest.importorskip("faiss")
    else:
        monkeypatch.setattr(approximate, "available", lambda name: False)
    return request.param


def randn(*size, seed=0, dtype=torch.float32):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def clusters(num_nodes=6_000, num_clusters=20, inner=3, features=16):
    """Clusters in planes of few dimensions, as features often are."""
    z = randn(num_nodes, inner, seed=1)
    basis = randn(num_clusters, inner, features, seed=2)
    cluster = torch.arange(num_nodes) % num_clusters
    return 5 * randn(num_clusters, features)[cluster] + torch.einsum("ni,nif->nf", z, basis[cluster])


def grid(num_nodes=6_000):
    """Many ties: distances are roots of integers."""
    return torch.randint(0, 30, (num_nodes, 3), generator=torch.Generator().manual_seed(0)).float()


def equal_rows(num_nodes=6_000):
    x = clusters(num_nodes)
    x[torch.randperm(num_nodes, generator=torch.Generator().manual_seed(5))[: num_nodes // 5]] = 0
    return x


def one_outlier(num_nodes=6_000):
    x = clusters(num_nodes)
    x[17] *= 1e4
    return x


#: Features, and a factor that multiplies them.
DATA = {
    "clusters": (clusters(), 1.0),
    "ties": (grid(), 1.0),
    "equal rows": (equal_rows(), 1.0),
    "an outlier": (one_outlier(), 1.0),
    "beyond the square root of the largest number": (clusters().double(), 2.0**600),
}


def share_found(x, distance, k=K):
    """The recall on all rows; a neighbour as far as the k-th true one is right."""
    return float((distance <= nearest_neighbors(x, k, "torch", 256.0)[1][:, -1:]).double().mean())


@pytest.mark.parametrize("name", list(DATA))
def test_the_stated_recall_is_that_of_all_rows(name):
    x, factor = DATA[name]
    neighbor, distance, note, recall = approximate_neighbors(x * factor, K, 0.99, 256.0)
    distance = distance / factor
    stated = float(re.match(r"approximate neighbours: recall (\d\.\d{4}), measured on 1,000 rows$", note)[1])
    assert stated >= 0.99
    assert recall == pytest.approx(stated, abs=5e-5)
    assert share_found(x, distance) == pytest.approx(stated, abs=0.005)
    assert not bool((neighbor == torch.arange(len(x)).unsqueeze(1)).any())
    assert bool((neighbor.sort(dim=1)[0].diff(dim=1) > 0).all())
    exact = (x.double().unsqueeze(1) - x.double()[neighbor]).norm(dim=2)
    torch.testing.assert_close(distance, exact, rtol=1e-12, atol=0)
    assert bool((distance.diff(dim=1) >= 0).all())


@pytest.mark.parametrize("recall", [0.5, 0.8, 0.95, 0.999])
def test_the_wanted_recall_is_met_with_fewer_pairs_than_all(recall):
    x = clusters()
    _, distance, note, _ = approximate_neighbors(x, K, recall, 256.0)
    assert note.startswith("approximate")
    assert share_found(x, distance) >= recall - 0.001


def test_the_same_call_gives_the_same_bits_whatever_the_global_seed():
    x = clusters()
    first = approximate_neighbors(x, K, 0.99, 256.0)
    torch.manual_seed(12)
    state = torch.get_rng_state()
    second = approximate_neighbors(x, K, 0.99, 256.0)
    assert torch.equal(first.neighbor, second.neighbor)
    assert torch.equal(first.distance, second.distance)
    assert first.note == second.note
    assert torch.equal(torch.get_rng_state(), state)


def test_data_without_structure_are_searched_exactly_and_the_note_says_why():
    x = randn(3_000, 64)
    neighbor, distance, note, recall = approximate_neighbors(x, K, 0.99, 256.0)
    assert recall is None  # exact
    expected = nearest_neighbors(x, K, "torch", 256.0)
    assert torch.equal(neighbor, expected[0])
    assert torch.equal(distance, expected[1])
    assert re.match(
        r"exact neighbours instead of approximate ones: a recall of 0.99 would take \d+% of all pairs, "
        r"which saves no time$",
        note,
    )


def test_a_measured_recall_below_the_wanted_one_is_not_handed_out(monkeypatch):
    # A sample that chooses too few cells, which the other sample must notice.
    probes = approximate.InvertedLists.probes
    monkeypatch.setattr(approximate.InvertedLists, "probes", lambda *given: min(1, probes(*given)))
    monkeypatch.setattr(approximate._Cells, "probes", lambda cells, *_: (cells.total < cells.count).sum(dim=1) + 1)
    x = clusters()
    neighbor, _, note, recall = approximate_neighbors(x, K, 0.99, 256.0)
    assert recall is None
    assert re.match(r"exact neighbours instead .* the recall measured on 1,000 rows was 0\.\d{4}, below 0.99$", note)
    assert torch.equal(neighbor, nearest_neighbors(x, K, "torch", 256.0)[0])


@pytest.mark.parametrize("num_nodes", [2, 3, 10, 50])
def test_few_rows_have_their_exact_neighbours(num_nodes):
    x = randn(num_nodes, 3)
    for k in {1, num_nodes - 1}:
        neighbor, _, _, _ = approximate_neighbors(x, k, 0.99, 256.0)
        assert torch.equal(neighbor, nearest_neighbors(x, k, "torch", 256.0)[0])


def test_more_neighbours_than_a_cell_has_rows_are_all_found():
    x = clusters(num_nodes=4_000)
    neighbor, distance, note, _ = approximate_neighbors(x, 300, 0.5, 256.0)
    assert note.startswith("approximate")
    assert bool((neighbor.sort(dim=1)[0].diff(dim=1) > 0).all())
    assert share_found(x, distance, 300) >= 0.5


def test_the_memory_budget_costs_no_recall():
    x = clusters()
    for budget in (0.01, 1.0):
        assert share_found(x, approximate_neighbors(x, K, 0.99, budget).distance) >= 0.99


def test_features_are_not_modified():
    x = clusters()
    before = x.clone()
    approximate_neighbors(x, K, 0.99, 256.0)
    assert torch.equal(x, before)


def test_the_first_cell_of_every_list_is_the_cell_itself():
    x = clusters()
    cells = approximate._Cells(x, K, 256.0, torch.Generator().manual_seed(0))
    used = cells.size > 0
    assert torch.equal(cells.order[used, 0], used.nonzero().view(-1))
    assert torch.equal(cells.order.sort(dim=1)[0], torch.arange(len(used)).expand_as(cells.order))
    assert int(cells.size.sum()) == len(x)


def test_the_number_of_threads_changes_no_neighbour():
    faiss, threads = pytest.importorskip("faiss"), torch.get_num_threads()
    x, found = clusters(), []
    for number in (1, 2):
        torch.set_num_threads(number)
        faiss.omp_set_num_threads(number)
        found.append(approximate_neighbors(x, K, 0.99, 256.0))
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    assert torch.equal(found[0].neighbor, found[1].neighbor)
    assert torch.equal(found[0].distance, found[1].distance)
    assert found[0].note == found[1].note
