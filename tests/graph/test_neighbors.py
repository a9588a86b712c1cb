import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from tg_crepe._optional import available
from tg_crepe.graph import neighbors
from tg_crepe.graph.neighbors import nearest_neighbors

NUM_NODES, K = 240, 6


def installed(name):
    return pytest.param(name, marks=pytest.mark.skipif(not available(name), reason=f"{name} is not installed"))


BACKENDS = ["torch", installed("faiss"), installed("torch_cluster")]


def randn(*size, seed=0, dtype=torch.float64):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def integers(low, high, *size):
    return torch.randint(low, high, size, generator=torch.Generator().manual_seed(0)).double()


def outlier(factor):
    x = randn(NUM_NODES, 8)
    x[17] *= factor
    return x


def far_clusters():
    """Clusters so narrow that single precision cannot see their inside from the common mean."""
    return 1e4 * randn(4, 8, seed=1)[torch.arange(NUM_NODES) % 4] + 1e-2 * randn(NUM_NODES, 8)


#: Data on which a quick search in single precision is wrong or overflows; a factor beside it multiplies the data.
HARD = {
    "many exact ties": (integers(0, 3, NUM_NODES, 4), 1.0),
    "ties on a line": (torch.arange(float(NUM_NODES)).double().unsqueeze(1), 1.0),
    "duplicates in groups larger than the candidates": (integers(0, 50, 8, 5)[torch.arange(NUM_NODES) % 8], 1.0),
    "all rows equal": (torch.full((NUM_NODES, 3), 7.0).double(), 1.0),
    "all rows zero": (torch.zeros(NUM_NODES, 3).double(), 1.0),
    "tiny spread around a large offset": (1e6 + 1e-3 * randn(NUM_NODES, 8), 1.0),
    "one outlier": (outlier(1e6), 1.0),
    "narrow clusters far apart": (far_clusters(), 1.0),
    "huge, single precision": (randn(NUM_NODES, 8, dtype=torch.float32), 2.0**100),  # about 1e30
    "huge, double precision": (randn(NUM_NODES, 8), 2.0**100),
    "beyond the square root of the largest number": (randn(NUM_NODES, 8), 2.0**1000),
    "below the square root of the smallest number": (randn(NUM_NODES, 8), 2.0**-1000),
}


def oracle(x, k):
    """Neighbours by (squared distance, index) from all differences, in double precision."""
    x = x.double().numpy()
    squared = np.square(x[:, None] - x[None]).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    neighbor = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return neighbor, np.sqrt(np.take_along_axis(squared, neighbor, axis=1))


def record_counts(monkeypatch):
    """The number of candidates of every search, in a list that fills as the search runs."""
    counts, make = [], neighbors._make_search

    def make_recorded(*args):
        search, block = make(*args)

        def recorded(rows, count):
            counts.append(count)
            return search(rows, count)

        return recorded, block

    monkeypatch.setattr(neighbors, "_make_search", make_recorded)
    return counts


@pytest.fixture(scope="module")
def five_thousand():
    """Random features, single and double precision, on the sphere or not, with scikit-learn's answer."""
    data = {}
    for name, x in {
        "euclidean": randn(5_000, 64),
        "cosine": torch.nn.functional.normalize(randn(5_000, 64, seed=1)),
        "float32": randn(5_000, 64, seed=2, dtype=torch.float32),
    }.items():
        search = NearestNeighbors(n_neighbors=20, algorithm="brute").fit(x.double().numpy())
        data[name] = x, *search.kneighbors()
    return data


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["euclidean", "cosine", "float32"])
def test_neighbours_of_5000_points_are_those_of_scikit_learn(five_thousand, name, backend):
    x, expected_distance, expected_neighbor = five_thousand[name]
    neighbor, distance = nearest_neighbors(x, 20, backend, 256.0)
    np.testing.assert_array_equal(neighbor.numpy(), expected_neighbor)
    np.testing.assert_allclose(distance.numpy(), expected_distance, rtol=0, atol=1e-10)
    assert distance.dtype == torch.float64


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list(HARD))
def test_hard_data_is_searched_exactly_by_every_backend(name, backend):
    x, factor = HARD[name]
    expected_neighbor, expected_distance = oracle(x, K)
    neighbor, distance = nearest_neighbors(x * factor, K, backend, 256.0)
    np.testing.assert_array_equal(neighbor.numpy(), expected_neighbor)
    np.testing.assert_allclose(distance.numpy(), expected_distance * factor, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tie_goes_to_the_lowest_index(backend):
    x = torch.tensor([[0.0], [1.0], [-1.0], [1.0], [-1.0], [5.0]])
    neighbor, distance = nearest_neighbors(x, 3, backend, 256.0)
    assert neighbor[0].tolist() == [1, 2, 3]
    assert distance[0].tolist() == [1.0, 1.0, 1.0]
    assert neighbor[1].tolist() == [3, 0, 2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_nodes", [2, 3, 9, 40])
def test_all_other_points_can_be_neighbours(num_nodes, backend):
    x = randn(num_nodes, 3)
    neighbor, distance = nearest_neighbors(x, num_nodes - 1, backend, 256.0)
    expected_neighbor, expected_distance = oracle(x, num_nodes - 1)
    np.testing.assert_array_equal(neighbor.numpy(), expected_neighbor)
    np.testing.assert_allclose(distance.numpy(), expected_distance, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["many exact ties", "duplicates in groups larger than the candidates", "one outlier"])
def test_memory_budget_changes_no_bit(name, backend):
    x, _ = HARD[name]
    expected = nearest_neighbors(x, K, backend, 256.0)
    for budget in (1e-6, 0.01, 0.3):
        result = nearest_neighbors(x, K, backend, budget)
        assert torch.equal(result[0], expected[0])
        assert torch.equal(result[1], expected[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_budget_changes_no_bit_on_continuous_data(backend):
    x = randn(2_000, 33, dtype=torch.float32)
    expected = nearest_neighbors(x, K, backend, 256.0)
    for budget in (0.01, 1.0):
        result = nearest_neighbors(x, K, backend, budget)
        assert torch.equal(result[0], expected[0])
        assert torch.equal(result[1], expected[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_does_not_reach_the_edges(backend):
    # Mixed precision turns the matrix product of a search into bfloat16, in which narrow clusters are one point.
    x = 5 * randn(10, 16)[torch.arange(600) % 10] + 0.1 * randn(600, 16, seed=1)
    expected = nearest_neighbors(x, K, backend, 256.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = nearest_neighbors(x, K, backend, 256.0)
    assert torch.equal(result[0], expected[0])
    assert torch.equal(result[1], expected[1])


def test_a_search_less_precise_than_it_should_be_does_not_reach_the_edges(monkeypatch):
    make = neighbors._make_search

    def make_coarse(points, backend, memory_budget):
        search, block = make(points, backend, memory_budget)
        if points.dtype == torch.float64:
            return search, block
        return make(points.half().float(), backend, memory_budget)

    x = 5 * randn(10, 16)[torch.arange(600) % 10] + 0.1 * randn(600, 16, seed=1)
    expected = nearest_neighbors(x, K, "torch", 256.0)
    monkeypatch.setattr(neighbors, "_make_search", make_coarse)
    result = nearest_neighbors(x, K, "torch", 256.0)
    assert torch.equal(result[0], expected[0])


@pytest.mark.parametrize("name", ["one outlier", "narrow clusters far apart", "tiny spread around a large offset"])
def test_close_points_far_from_the_mean_need_no_more_candidates(monkeypatch, name):
    # More candidates would never tell them apart: every row would end in a search through all others.
    counts = record_counts(monkeypatch)
    nearest_neighbors(HARD[name][0], K, "torch", 256.0)
    assert set(counts) == {K + neighbors.SPARE + 1}


def test_ties_are_searched_with_more_candidates(monkeypatch):
    counts = record_counts(monkeypatch)
    x = torch.cat([torch.zeros(1, 40), torch.eye(40)]).double()  # 40 rows as far from the first, and from each other
    neighbor, _ = nearest_neighbors(x, K, "torch", 256.0)
    first = K + neighbors.SPARE
    assert set(counts) == {first + 1, 2 * first + 1, 41}
    np.testing.assert_array_equal(neighbor.numpy(), oracle(x, K)[0])


def with_equal_rows(num_equal, num_others=300, num_groups=1, seed=0):
    """Groups of equal rows at random places in the data, and as many rows so close to them that all are tied."""
    x = randn(num_groups * num_equal + num_others, 8, seed=seed)
    place = torch.randperm(x.size(0), generator=torch.Generator().manual_seed(seed))
    for group in range(num_groups):
        x[place[group * num_equal : (group + 1) * num_equal]] = randn(1, 8, seed=group + 1)
    near = place[num_groups * num_equal :][: num_others // 2]
    x[near] = randn(1, 8, seed=1) + 1e-3 * x[near]
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_equal", [K - 1, K, K + 1, K + 2, K + neighbors.SPARE, 40, 200])
def test_equal_rows_have_the_neighbours_of_the_oracle(num_equal, backend):
    x = with_equal_rows(num_equal, num_groups=3)
    expected_neighbor, expected_distance = oracle(x, K)
    neighbor, distance = nearest_neighbors(x, K, backend, 256.0)
    np.testing.assert_array_equal(neighbor.numpy(), expected_neighbor)
    np.testing.assert_allclose(distance.numpy(), expected_distance, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_thousands_of_equal_rows_are_not_searched_among_each_other(monkeypatch, backend):
    counts = record_counts(monkeypatch)
    x = with_equal_rows(3_000)
    neighbor, distance = nearest_neighbors(x, K, backend, 256.0)
    assert max(counts) <= 2 * (K + neighbors.SPARE) + 1
    rows = torch.cat([torch.arange(100), (x != x[neighbor[0, 0]]).any(dim=1).nonzero().view(-1)]).numpy()
    squared = np.square(x.numpy()[rows][:, None] - x.numpy()[None]).sum(axis=2)
    squared[np.arange(len(rows)), rows] = np.inf
    expected = np.argsort(squared, axis=1, kind="stable")[:, :K]
    np.testing.assert_array_equal(neighbor.numpy()[rows], expected)
    np.testing.assert_allclose(distance.numpy()[rows] ** 2, np.take_along_axis(squared, expected, axis=1), rtol=1e-13)


def test_zero_of_either_sign_is_the_same_place():
    x = torch.zeros(60, 2, dtype=torch.float64)
    x[::3] = -0.0
    x[50:] = 1
    neighbor, distance = nearest_neighbors(x, K, "torch", 256.0)
    np.testing.assert_array_equal(neighbor.numpy(), oracle(x, K)[0])
    assert bool((distance == 0).all())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["many exact ties", "one outlier", "all rows equal"])
def test_chosen_rows_have_the_neighbours_they_have_among_all(name, backend):
    x, _ = HARD[name]
    neighbor, distance = nearest_neighbors(x, K, backend, 256.0)
    rows = torch.tensor([200, 3, 17, 0])
    some_neighbor, some_distance = nearest_neighbors(x, K, backend, 256.0, rows)
    assert torch.equal(some_neighbor, neighbor[rows])
    assert torch.equal(some_distance, distance[rows])


def test_features_are_not_modified():
    x = randn(50, 4)
    before = x.clone()
    nearest_neighbors(x, K, "torch", 256.0)
    assert torch.equal(x, before)


# What a search may answer.


def answer_with(monkeypatch, found, rough):
    def search(rows, count):
        return found(rows, count), rough(rows, count)

    monkeypatch.setattr(neighbors, "_make_search", lambda *_: (search, 16))


def first_columns(rows, count):
    return torch.arange(count).repeat(rows.numel(), 1)


def zeros(rows, count):
    return torch.zeros(rows.numel(), count)


@pytest.mark.parametrize("index", [-1, 20, 2**40])
def test_missing_neighbours_are_an_error(monkeypatch, index):
    answer_with(
        monkeypatch, lambda rows, count: first_columns(rows, count).index_fill(1, torch.tensor([3]), index), zeros
    )
    with pytest.raises(RuntimeError, match="missing neighbours"):
        nearest_neighbors(randn(20, 2), 3, "torch", 256.0)


def test_repeated_neighbours_are_an_error(monkeypatch):
    answer_with(monkeypatch, lambda rows, count: first_columns(rows, count).index_fill(1, torch.tensor([3]), 7), zeros)
    with pytest.raises(RuntimeError, match="the same neighbour twice"):
        nearest_neighbors(randn(20, 2), 3, "torch", 256.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_distances_that_are_not_finite_are_an_error(monkeypatch, value):
    answer_with(monkeypatch, first_columns, lambda rows, count: torch.full((rows.numel(), count), value))
    with pytest.raises(RuntimeError, match="not finite"):
        nearest_neighbors(randn(20, 2), 3, "torch", 256.0)


# The backends one by one.


def test_faiss_refuses_data_that_are_not_on_the_cpu():
    with pytest.raises(ValueError, match="'backend' = 'faiss' needs 'x' on the CPU, got meta"):
        neighbors._faiss_search(torch.empty(3, 2, device="meta"))


@pytest.mark.parametrize(("has_faiss", "expected"), [(True, "faiss"), (False, "torch")])
def test_auto_takes_faiss_where_it_is_installed(monkeypatch, has_faiss, expected):
    taken = []
    monkeypatch.setattr(neighbors, "available", lambda _: has_faiss)
    for name in ("faiss", "torch"):
        monkeypatch.setattr(neighbors, f"_{name}_search", lambda _, name=name: taken.append(name))
    neighbors._make_search(randn(5, 2), "auto", 256.0)
    assert taken == [expected]


def test_auto_takes_torch_where_the_data_are_not_on_the_cpu(monkeypatch):
    monkeypatch.setattr(neighbors, "_faiss_search", lambda _: pytest.fail("faiss was asked for data on another device"))
    search, block = neighbors._make_search(torch.empty(5, 2, device="meta"), "auto", 256.0)
    assert search(torch.arange(3, device="meta"), 2)[0].shape == (3, 2)
    assert block == 4096


def test_the_block_of_distances_fits_the_budget():
    points = torch.empty(100_000, 1)
    for dtype, size in ((torch.float32, 4), (torch.float64, 8)):
        _, block = neighbors._make_search(points.to(dtype), "torch", 64.0)
        assert 0.9 * 64 < 2 * block * 100_000 * size / 2**20 <= 64


@pytest.mark.parametrize(("backend", "extra"), [("faiss", r"tg-crepe\[knn\]"), ("torch_cluster", r"tg-crepe\[ext\]")])
def test_a_missing_backend_says_what_to_install(monkeypatch, backend, extra):
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(ImportError, match=f"'{backend}' is needed here and is not installed: .*{extra}"):
        nearest_neighbors(randn(20, 2), 3, backend, 256.0)


def stand_in_for_torch_cluster(x, y, k):
    """torch_cluster.knn as documented: for every row of y the k nearest rows of x, in any order."""
    found = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist").topk(k, largest=False)[1].flip(1)
    return torch.stack([torch.arange(y.size(0)).repeat_interleave(k), found.reshape(-1)])


def test_the_answer_of_torch_cluster_is_read_in_any_order(monkeypatch):
    monkeypatch.setattr(neighbors, "require", lambda *_, **__: SimpleNamespace(knn=stand_in_for_torch_cluster))
    for name in ("many exact ties", "duplicates in groups larger than the candidates", "narrow clusters far apart"):
        x, _ = HARD[name]
        neighbor, _ = nearest_neighbors(x, K, "torch_cluster", 256.0)
        np.testing.assert_array_equal(neighbor.numpy(), oracle(x, K)[0])


def test_too_few_neighbours_from_torch_cluster_are_an_error(monkeypatch):
    def knn(x, y, k):
        return stand_in_for_torch_cluster(x, y, k)[:, :-1]

    monkeypatch.setattr(neighbors, "require", lambda *_, **__: SimpleNamespace(knn=knn))
    with pytest.raises(RuntimeError, match="torch_cluster found fewer than 12 neighbours"):
        nearest_neighbors(randn(20, 2), 3, "torch_cluster", 256.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_and_plain_ranks_are_the_same(monkeypatch, dtype):
    pytest.importorskip("numba")
    x = torch.randint(-2, 3, (300, 7), generator=torch.Generator().manual_seed(0)).to(dtype)  # many ties, exact sums
    rows = torch.randperm(300, generator=torch.Generator().manual_seed(1))[:100]
    found = torch.stack([torch.randperm(300, generator=torch.Generator().manual_seed(s))[:40] for s in range(100)])
    rough = torch.zeros(100, 40, dtype=dtype)
    compiled = neighbors.rank_candidates(x.double(), rows, found, rough, 9, 256.0)
    monkeypatch.setattr(neighbors, "available", lambda name: False)
    for one, other in zip(compiled, neighbors.rank_candidates(x.double(), rows, found, rough, 9, 256.0), strict=True):
        assert torch.equal(one, other)
