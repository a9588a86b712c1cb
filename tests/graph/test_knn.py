import copy
import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from sklearn.preprocessing import normalize
from torch_geometric.data import Data

from tg_crepe import FeatureKNNGraph, GraphWarning, knn_graph, prepare
from tg_crepe._optional import available
from tg_crepe.graph import knn
from tg_crepe.graph.knn import NeighborGraph
from tg_crepe.graph.neighbors import nearest_neighbors

METRICS = ["cosine", "euclidean"]
KERNELS = ["gaussian", "cosine", "uniform"]
COMBINE = {"max": np.maximum, "mean": lambda a, b: (a + b) / 2, "mutual": np.minimum}


def installed(name):
    return pytest.param(name, marks=pytest.mark.skipif(not available(name), reason=f"{name} is not installed"))


OTHER_BACKENDS = [installed("faiss"), installed("torch_cluster")]
BACKENDS = ["torch", *OTHER_BACKENDS]


def randn(*size, seed=0, dtype=torch.float64):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def dense(edge_index, edge_weight, num_nodes):
    w = np.zeros((num_nodes, num_nodes))
    w[tuple(edge_index.numpy())] = edge_weight.double().numpy()
    return w


def oracle(x, k, metric, kernel, symmetrize):
    """The dense weight matrix, node by node from the formulas."""
    x = x.double().numpy()
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    unit = x / np.where(norm > 0, norm, 1)
    points = unit if metric == "cosine" else x
    directed = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        squared = ((points - points[i]) ** 2).sum(axis=1)
        squared[i] = np.inf
        near = np.argsort(squared, kind="stable")[:k]
        if kernel == "gaussian":
            directed[i, near] = np.exp(-4 * squared[near] / squared[near[-1]]) if squared[near[-1]] > 0 else 1
        elif kernel == "cosine":
            directed[i, near] = np.maximum(unit[near] @ unit[i], 0)
        else:
            directed[i, near] = 1
    return COMBINE[symmetrize](directed, directed.T)


def assert_same(a, b):
    assert torch.equal(a[0], b[0])
    assert torch.equal(a[1], b[1])


# The weights.


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("symmetrize", list(COMBINE))
def test_weights_follow_the_formula(metric, kernel, symmetrize):
    x = randn(60, 5)
    result = knn_graph(x, 7, metric, kernel=kernel, symmetrize=symmetrize)
    expected = oracle(x, 7, metric, kernel, symmetrize)
    np.testing.assert_allclose(dense(*result, 60), expected, rtol=1e-10, atol=1e-14)
    assert result[1].numel() == np.count_nonzero(expected)


def test_defaults_are_twenty_neighbours_with_gaussian_weights():
    x = randn(80, 5)  # few columns of one scale: Euclidean
    np.testing.assert_allclose(
        dense(*knn_graph(x), 80), oracle(x, 20, "euclidean", "gaussian", "max"), rtol=1e-10, atol=1e-14
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", METRICS)
def test_edges_of_5000_points_are_those_of_scikit_learn(metric, backend):
    x = randn(5_000, 64, dtype=torch.float32)
    points = x.double().numpy() if metric == "euclidean" else normalize(x.double().numpy())
    directed = kneighbors_graph(points, 20)
    expected = set(zip(*directed.maximum(directed.T).nonzero(), strict=True))
    edge_index, _ = knn_graph(x, 20, metric, backend, kernel="uniform")
    assert set(zip(*edge_index.numpy(), strict=True)) == expected


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("symmetrize", list(COMBINE))
@given(seed=st.integers(0, 10_000))
def test_edges_go_both_ways_without_loops_or_repeats(metric, symmetrize, seed):
    edge_index, edge_weight = knn_graph(randn(30, 3, seed=seed), 4, metric, symmetrize=symmetrize)
    w = dense(edge_index, edge_weight, 30)
    np.testing.assert_array_equal(w, w.T)
    assert np.diag(w).tolist() == [0] * 30
    assert edge_index.size(1) == edge_weight.numel() == np.count_nonzero(w)  # a repeat would count once in w
    assert bool((edge_weight > 0).all())
    half = edge_weight.numel() // 2
    assert torch.equal(edge_index[:, :half], edge_index[:, half:].flip(0))
    assert torch.equal(edge_weight[:half], edge_weight[half:])


@pytest.mark.parametrize("metric", METRICS)
def test_without_mutual_every_node_keeps_its_neighbours(metric):
    edge_index, _ = knn_graph(randn(100, 3), 6, metric)
    assert int(torch.bincount(edge_index[0], minlength=100).min()) >= 6


# What must not matter.


@pytest.mark.parametrize("backend", OTHER_BACKENDS)
@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 10_000), values=st.integers(1, 4), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_the_graph_does_not_depend_on_the_backend(backend, metric, seed, values, dtype):
    # Few different values: many exact ties and groups of duplicates.
    x = torch.randint(1, 1 + values, (80, 4), generator=torch.Generator().manual_seed(seed)).to(dtype)
    assert_same(knn_graph(x, 5, metric, backend), knn_graph(x, 5, metric, "torch"))


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 10_000))
def test_relabelled_points_give_the_relabelled_graph(metric, seed):
    x = randn(40, 3, seed=seed)
    label = torch.randperm(40, generator=torch.Generator().manual_seed(seed))
    expected = dense(*knn_graph(x, 5, metric), 40)
    np.testing.assert_array_equal(dense(*knn_graph(x[label], 5, metric), 40), expected[np.ix_(label, label)])


@given(seed=st.integers(0, 10_000), power=st.integers(-900, 900))
def test_the_unit_of_the_features_changes_no_bit(seed, power):
    x = randn(40, 3, seed=seed)
    for metric in METRICS:
        assert_same(knn_graph(x * 2.0**power, 5, metric), knn_graph(x, 5, metric))


@given(seed=st.integers(0, 10_000))
def test_the_length_of_rows_changes_no_bit_of_the_cosine_graph(seed):
    x = randn(40, 3, seed=seed)
    power = torch.randint(-500, 500, (40, 1), generator=torch.Generator().manual_seed(seed))
    assert_same(knn_graph(x * 2.0 ** power.double(), 5, "cosine"), knn_graph(x, 5, "cosine"))


@given(seed=st.integers(0, 10_000))
def test_rotation_and_shift_leave_the_euclidean_graph(seed):
    x = randn(40, 3, seed=seed)
    rotation = torch.linalg.qr(randn(3, 3, seed=seed))[0]
    expected = dense(*knn_graph(x, 5, "euclidean"), 40)
    np.testing.assert_allclose(dense(*knn_graph(x @ rotation + 10, 5, "euclidean"), 40), expected, atol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_layout_in_memory_changes_no_bit(metric, dtype):
    x = randn(300, 40, dtype=dtype)
    expected = knn_graph(x, 5, metric)
    assert_same(knn_graph(x.t().contiguous().t(), 5, metric), expected)
    assert_same(knn_graph(x.repeat_interleave(2, dim=1)[:, ::2], 5, metric), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_memory_budget_changes_no_bit(metric):
    x = randn(500, 9, dtype=torch.float32)
    expected = knn_graph(x, 5, metric, "torch")
    for budget in (1e-6, 0.05, 1):
        assert_same(knn_graph(x, 5, metric, "torch", memory_budget=budget), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_features_are_not_modified(metric):
    x = randn(40, 3).requires_grad_()
    before = x.detach().clone()
    _, edge_weight = knn_graph(x, 5, metric)
    assert torch.equal(x.detach(), before)
    assert not edge_weight.requires_grad


# Kinds of features.


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int64, torch.float32),
        (torch.uint8, torch.float32),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_any_real_type_of_features_works(metric, dtype, expected):
    x = torch.randint(1, 100, (30, 4), generator=torch.Generator().manual_seed(0)).to(dtype)
    edge_index, edge_weight = knn_graph(x, 5, metric)
    assert edge_index.dtype == torch.long
    assert edge_weight.dtype == expected
    np.testing.assert_allclose(dense(edge_index, edge_weight, 30), oracle(x, 5, metric, "gaussian", "max"), rtol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_all_points_can_be_neighbours(metric):
    x = randn(12, 3)
    expected = oracle(x, 11, metric, "gaussian", "max")
    np.testing.assert_allclose(dense(*knn_graph(x, 11, metric), 12), expected, rtol=1e-10)
    assert np.count_nonzero(expected) == 12 * 11


def test_two_points_are_a_graph():
    edge_index, edge_weight = knn_graph(torch.tensor([[1.0], [3.0]]), 1, "euclidean")
    assert edge_index.tolist() == [[0, 1], [1, 0]]
    torch.testing.assert_close(edge_weight, torch.full((2,), -4.0).exp())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", METRICS)
def test_duplicate_points_have_weight_one(metric, backend):
    x = randn(4, 5).repeat(20, 1)  # groups of 20, more than k + 8
    edge_index, edge_weight = knn_graph(x, 6, metric, backend)
    assert edge_weight.tolist() == [1.0] * edge_weight.numel()
    assert bool((edge_index[0] % 4 == edge_index[1] % 4).all())
    np.testing.assert_array_equal(dense(edge_index, edge_weight, 80), oracle(x, 6, "euclidean", "gaussian", "max"))


def test_zero_rows_are_counted_in_one_warning_under_cosine():
    x = randn(30, 4)
    x[[3, 8, 20]] = 0
    with pytest.warns(GraphWarning, match=r"^3 zero row\(s\) of 'x'") as record:
        edge_index, edge_weight = knn_graph(x, 5, "cosine")
    assert len(record) == 1
    assert record[0].filename == __file__
    w = dense(edge_index, edge_weight, 30)
    assert np.isfinite(w).all()
    assert w[3, 8] == w[8, 20] == w[3, 20] == 1  # at the origin together
    assert int(torch.bincount(edge_index[0], minlength=30).min()) >= 5


def test_zero_rows_alone_are_one_cluster_of_duplicates():
    with pytest.warns(GraphWarning, match=r"^20 zero row\(s\)"):
        _, edge_weight = knn_graph(torch.zeros(20, 3), 4, "cosine")
    assert edge_weight.tolist() == [1.0] * edge_weight.numel()


def test_zero_rows_are_ordinary_points_under_the_euclidean_metric():
    x = randn(30, 4)
    x[3] = 0
    result = knn_graph(x, 5, "euclidean")  # a warning would be an error here
    np.testing.assert_allclose(dense(*result, 30), oracle(x, 5, "euclidean", "gaussian", "max"), rtol=1e-10)


def test_weights_of_the_cosine_kernel_leave_opposite_points_apart():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    edge_index, edge_weight = knn_graph(x, 3, "cosine", kernel="cosine")
    assert {tuple(sorted(edge)) for edge in edge_index.t().tolist()} == {(0, 1), (2, 3)}
    torch.testing.assert_close(edge_weight, torch.full((4,), 1 / 1.01**0.5))


# What is refused.


@pytest.mark.parametrize("k", [0, -1, True, 2.0, "5", None])
def test_a_bad_number_of_neighbours_is_refused(k):
    with pytest.raises(ValueError, match="'k' must be an integer"):
        knn_graph(randn(10, 2), k)


@pytest.mark.parametrize("k", [10, 11, 1_000])
def test_more_neighbours_than_other_points_are_refused(k):
    with pytest.raises(ValueError, match=rf"'k' must be an integer in \[1, num_nodes - 1\], got {k} .*= 9\)"):
        knn_graph(randn(10, 2), k)


def test_one_point_has_no_neighbours():
    with pytest.raises(ValueError, match="'k' must be"):
        knn_graph(randn(1, 2), 1)


def test_an_integer_of_another_library_is_a_number_of_neighbours():
    x = randn(10, 2)
    assert_same(knn_graph(x, np.int64(3)), knn_graph(x, 3))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.empty(0, 3), r"'x' must be a dense tensor .* not empty, got \[0, 3\]"),
        (torch.empty(10, 0), r"'x' must be a dense tensor .* not empty, got \[10, 0\]"),
        (torch.ones(10), r"'x' must be a dense tensor of shape \[num_nodes, num_features\], not empty, got \[10\]"),
        (torch.ones(10, 2, 2), r"'x' must be a dense tensor .* got \[10, 2, 2\]"),
        (torch.eye(10).to_sparse(), "'x' must be a dense tensor"),
        (torch.ones(10, 2, dtype=torch.complex64), "'x' must be of a real dtype, got torch.complex64"),
        ([[1.0, 2.0]] * 10, "'x' must be a torch.Tensor"),
        ([[1.0], [2.0]], "'x' must be a torch.Tensor, got list"),
    ],
)
def test_bad_features_are_refused(x, message):
    with pytest.raises(ValueError, match=message):
        knn_graph(x, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_features_that_are_not_finite_are_refused_with_their_rows(value):
    x = randn(20, 3)
    x[4, 0] = x[11, 2] = value
    with pytest.raises(ValueError, match=r"'x' must be finite, got NaN or infinity in row\(s\) 4, 11$"):
        knn_graph(x, 3)
    x[:, 1] = value
    with pytest.raises(ValueError, match=r"'x' must be finite.* row\(s\) 0, 1, 2, 3, 4, … \(20 in all\)"):
        knn_graph(x, 3)


@pytest.mark.parametrize(
    ("option", "valid"),
    [
        ("metric", "'auto', 'cosine', 'euclidean'"),
        ("backend", "'auto', 'torch', 'faiss', 'torch_cluster', 'approximate'"),
        ("kernel", "'gaussian', 'cosine', 'uniform'"),
        ("symmetrize", "'max', 'mean', 'mutual'"),
    ],
)
@pytest.mark.parametrize("value", ["manhattan", None, 3])
def test_unknown_names_are_refused_with_the_valid_ones(option, valid, value):
    with pytest.raises(ValueError, match=f"'{option}' must be one of {valid}, got {value!r}"):
        knn_graph(randn(10, 2), 3, **{option: value})


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), True, "256"])
def test_a_bad_memory_budget_is_refused(budget):
    with pytest.raises(ValueError, match="'memory_budget' must be a finite number > 0"):
        knn_graph(randn(10, 2), 3, memory_budget=budget)


@pytest.mark.parametrize("recall", [0, -0.5, 1.01, float("nan"), True, "0.9", None])
def test_a_bad_recall_is_refused(recall):
    with pytest.raises(ValueError, match=r"'recall' must be a number in \(0, 1\], got"):
        knn_graph(randn(10, 2), 3, recall=recall)
    with pytest.raises(ValueError, match=r"'recall' must be a number in \(0, 1\], got"):
        FeatureKNNGraph(recall=recall)


# The approximate search.


def pairs_of_rows(num_pairs=1_500):
    """Far pairs of close rows: easy for cells."""
    place = 10 * randn(num_pairs, 2)
    return torch.cat([place, place + 1e-3])


def test_an_approximate_graph_states_its_recall_in_one_warning():
    x = pairs_of_rows()
    with pytest.warns(
        GraphWarning, match=r"^approximate neighbours: recall (0\.99\d\d|1\.0000), measured on"
    ) as record:
        edge_index, edge_weight = knn_graph(x, 5, "euclidean", "approximate")
    assert len(record) == 1
    assert record[0].filename == __file__
    exact = dense(*knn_graph(x, 5, "euclidean"), len(x)) > 0
    assert (dense(edge_index, edge_weight, len(x)) > 0)[exact].mean() > 0.99


def test_auto_is_approximate_only_beyond_its_size_and_below_a_recall_of_one(monkeypatch):
    x = pairs_of_rows()
    monkeypatch.setattr(knn, "_MOST_EXACT", len(x))
    expected = knn_graph(x, 5)  # a warning would be an error here
    monkeypatch.setattr(knn, "_MOST_EXACT", len(x) - 1)
    assert_same(knn_graph(x, 5, recall=1), expected)
    assert_same(knn_graph(x, 5, backend="torch"), expected)
    with pytest.warns(GraphWarning, match="^approximate neighbours"):
        knn_graph(x, 5)


def test_auto_is_exact_on_other_devices(monkeypatch):
    monkeypatch.setattr(knn, "_MOST_EXACT", 2)
    assert not knn._is_large(torch.empty(10, 2, device="meta"))
    assert knn._is_large(torch.empty(10, 2))


def test_the_wanted_recall_reaches_the_search_from_the_transform(monkeypatch):
    wanted = []

    def approximate(x, k, recall, memory_budget):
        wanted.append(recall)
        return *nearest_neighbors(x, k, "torch", memory_budget), "as asked", 0.95

    monkeypatch.setattr(knn, "approximate_neighbors", approximate)
    with pytest.warns(GraphWarning, match="^as asked$"):
        data = FeatureKNNGraph(k=3, backend="approximate", recall=0.9)(Data(x=randn(10, 2)))
    assert wanted == [0.9]
    assert data.neighbor_recall == 0.95
    assert "neighbor_recall" not in FeatureKNNGraph(k=3)(data)  # that of another graph


def test_ordinary_features_make_no_warning():
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        edge_index, _ = knn_graph(randn(50, 4), 5)
    assert edge_index.numel() > 0
    assert [str(w.message) for w in record] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory in use is read from /proc")
@pytest.mark.parametrize("backend", ["torch", installed("faiss")])
def test_70000_points_take_less_than_a_gigabyte_and_a_half(backend):
    # Not getrusage: its peak starts at that of the parent process.
    script = f"""
        import re, time, torch
        from pathlib import Path
        from tg_crepe import knn_graph

        def memory(field):
            return 1024 * int(re.search(field + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

        x = torch.randn(70_000, 128, generator=torch.Generator().manual_seed(0))
        knn_graph(x[:1000], 20, backend={backend!r})  # libraries and their buffers are not what is measured
        before, start = memory("VmRSS"), time.perf_counter()
        edge_index, _ = knn_graph(x, 20, backend={backend!r})
        print(edge_index.size(1), memory("VmHWM") - before, time.perf_counter() - start)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    num_edges, extra, seconds = run.stdout.split()
    print(f"{backend}: {int(extra) / 1e9:.2f} GB, {float(seconds):.1f} s, {num_edges} edges")
    assert int(num_edges) >= 70_000 * 20
    assert int(extra) < 1.5e9


@pytest.mark.parametrize("kernel", ["gaussian", "cosine", "uniform"])
def test_a_batch_is_searched_graph_by_graph_in_any_order_of_its_rows(kernel):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator)
    batch = torch.randint(0, 3, (60,), generator=generator) * 5  # neither sorted nor without gaps
    edge_index, edge_weight = knn_graph(x, 4, metric="euclidean", kernel=kernel, batch=batch)
    found = torch.zeros(60, 60).index_put_(tuple(edge_index), edge_weight)
    expected = torch.zeros(60, 60)
    for number in (0, 5, 10):
        rows = (batch == number).nonzero().view(-1)
        own, weight = knn_graph(x[rows], 4, metric="euclidean", kernel=kernel)
        expected[rows[own[0]], rows[own[1]]] = weight
    assert torch.equal(found, expected)


def test_one_graph_in_a_batch_is_the_graph_without():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    one, other = knn_graph(x, 6), knn_graph(x, 6, batch=torch.zeros(40, dtype=torch.long))
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


@pytest.mark.parametrize("batch", [torch.zeros(39, dtype=torch.long), torch.zeros(40), [0] * 40])
def test_a_batch_has_an_integer_for_every_row(batch):
    with pytest.raises(ValueError, match="'batch' must"):
        knn_graph(torch.rand(40, 3), 6, batch=batch)


def test_a_graph_knows_its_recall():
    x = randn(3000, 3)
    edges = knn_graph(x, 5, "euclidean")
    assert edges.recall is None  # exact
    with pytest.warns(GraphWarning, match="recall") as told:
        edges = knn_graph(x, 5, "euclidean", backend="approximate")
    edge_index, edge_weight = edges
    assert edges.recall >= 0.99
    assert f"recall {edges.recall:.4f}" in str(told[0].message)
    # Over all rows, of another search: as many true edges as it says, give or take the rows that it was measured on.
    true = torch.tensor(NearestNeighbors(n_neighbors=6).fit(x).kneighbors(x, return_distance=False)[:, 1:])
    found = set((edge_index[0] * 3000 + edge_index[1]).tolist())
    hit = [int(i) * 3000 + int(j) in found for i, row in enumerate(true) for j in row]
    assert sum(hit) / len(hit) == pytest.approx(edges.recall, abs=0.01)
    assert torch.equal(prepare(*edges).edge_weight, prepare(edge_index, edge_weight).edge_weight)


@pytest.mark.parametrize("again", [lambda g: pickle.loads(pickle.dumps(g)), copy.copy, copy.deepcopy])
def test_the_pair_can_be_copied_and_sent_to_another_process(again):
    graph = NeighborGraph(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), 0.99)
    found = again(graph)
    assert type(found) is NeighborGraph
    assert found.recall == 0.99
    assert all(torch.equal(one, other) for one, other in zip(found, graph, strict=True))
