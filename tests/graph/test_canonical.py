import numpy as np
import pytest
import scipy.sparse
import torch
from helpers import dense_adjacency, random_graph
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric import EdgeIndex

from tg_crepe._optional import available
from tg_crepe.graph import CanonicalGraph, canonical_graph

COMBINE = {"max": np.maximum, "mean": lambda a, b: (a + b) / 2, "mutual": np.minimum}


@st.composite
def multigraphs(draw, max_nodes=8, max_edges=40):
    """Directed edges with repeats, loops and zero weights, and more nodes than the edges name."""
    num_nodes = draw(st.integers(1, max_nodes))
    node = st.integers(0, num_nodes - 1)
    weight = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
    edges = draw(st.lists(st.tuples(node, node, weight), max_size=max_edges))
    edge_index = torch.tensor([[i for i, _, _ in edges], [j for _, j, _ in edges]], dtype=torch.long)
    edge_weight = torch.tensor([w for _, _, w in edges], dtype=torch.float64)
    return edge_index, edge_weight, num_nodes + draw(st.integers(0, 2))


def dense_directed(edge_index, edge_weight, num_nodes):
    """The summed directed weights as a dense matrix without its diagonal."""
    w = np.zeros((num_nodes, num_nodes))
    np.add.at(w, tuple(edge_index.numpy()), edge_weight.double().numpy())
    np.fill_diagonal(w, 0)
    return w


def random_multigraph(seed=0, num_nodes=12, num_edges=200, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    return edge_index, torch.rand(num_edges, generator=generator).to(dtype), num_nodes


def assert_same_graph(a, b):
    assert torch.equal(a.edge_index, b.edge_index)
    assert torch.equal(a.edge_weight, b.edge_weight)
    assert a.edge_weight.dtype == b.edge_weight.dtype
    assert a.num_nodes == b.num_nodes


def sparse_coo(edge_index, edge_weight, shape):
    return torch.sparse_coo_tensor(edge_index, edge_weight, shape, check_invariants=True)


class SparseTensorStandIn:
    """What canonical_graph needs of a torch_sparse.SparseTensor."""

    def __init__(self, row, col, value, sizes):
        self._coo, self._sizes = (row, col, value), sizes

    def coo(self):
        return self._coo

    def sparse_sizes(self):
        return self._sizes


# What the graph is.


@pytest.mark.parametrize("symmetrize", list(COMBINE))
@given(graph=multigraphs())
def test_any_multigraph_agrees_with_dense_algebra(symmetrize, graph):
    directed = dense_directed(*graph)
    expected = COMBINE[symmetrize](directed, directed.T)
    result, _ = canonical_graph(*graph, symmetrize=symmetrize)
    np.testing.assert_allclose(dense_adjacency(result), expected, rtol=1e-14)
    assert result.num_edges == np.count_nonzero(np.triu(expected))


@given(graph=multigraphs())
def test_every_edge_is_held_once_sorted_and_positive(graph):
    result, _ = canonical_graph(*graph)
    i, j = result.edge_index
    assert bool((i < j).all())
    assert bool((result.edge_weight > 0).all())
    key = i * result.num_nodes + j
    assert bool((key[1:] > key[:-1]).all())
    assert result.num_nodes == graph[2]
    assert result.edge_index.dtype == torch.long


def test_a_one_way_edge_counts_both_ways_and_vanishes_when_mutual():
    edge_index, edge_weight = torch.tensor([[2], [0]]), torch.tensor([3.0])
    for symmetrize, expected in [("max", [3.0]), ("mean", [1.5]), ("mutual", [])]:
        graph, _ = canonical_graph(edge_index, edge_weight, symmetrize=symmetrize)
        assert graph.edge_weight.tolist() == expected
        assert graph.edge_index.t().tolist() == [[0, 2]] * len(expected)
        assert graph.num_nodes == 3


def test_repeats_are_summed_within_a_direction_only():
    edge_index, edge_weight = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]]), torch.tensor([1.0, 2.0, 5.0, 4.0])
    weights = {s: canonical_graph(edge_index, edge_weight, symmetrize=s)[0].edge_weight.tolist() for s in COMBINE}
    assert weights == {"max": [7.0], "mean": [6.0], "mutual": [5.0]}


def test_nodes_without_edges_are_kept():
    graph, _ = canonical_graph(torch.tensor([[1, 3], [2, 3]]), num_nodes=6)
    assert graph.num_nodes == 6
    assert graph.edge_index.tolist() == [[1], [2]]
    assert graph.degree.tolist() == [0, 1, 1, 0, 0, 0]


def test_number_of_nodes_comes_from_the_largest_index():
    assert canonical_graph(torch.tensor([[1, 7], [2, 7]]))[0].num_nodes == 8


def test_edges_without_weights_weigh_one():
    graph, _ = canonical_graph(torch.tensor([[0, 1], [1, 2]]))
    assert graph.edge_weight.tolist() == [1.0, 1.0]


def test_an_empty_graph_is_a_graph():
    graph, notes = canonical_graph(torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), num_nodes=3)
    assert (graph.num_nodes, graph.num_edges, notes) == (3, 0, [])
    assert graph.edge_index.shape == (2, 0)
    assert graph.degree.tolist() == [0, 0, 0]
    assert graph.component.tolist() == [0, 1, 2]
    assert graph.adjacency.to_dense().tolist() == [[0, 0, 0]] * 3


def test_a_graph_of_no_nodes_is_a_graph():
    graph, notes = canonical_graph(torch.zeros(2, 0, dtype=torch.long))
    assert (graph.num_nodes, graph.num_edges, notes) == (0, 0, [])
    assert graph.degree.shape == graph.component.shape == (0,)


# What it is given.


FORMS = {
    "coo": lambda i, w, n: sparse_coo(i, w, (n, n)).coalesce(),
    "coo, uncoalesced": lambda i, w, n: sparse_coo(i, w, (n, n)),
    "csr": lambda i, w, n: sparse_coo(i, w, (n, n)).to_sparse_csr(),
    "csc": lambda i, w, n: sparse_coo(i, w, (n, n)).to_sparse_csc(),
    "scipy coo_array": lambda i, w, n: scipy.sparse.coo_array((w.numpy(), tuple(i.numpy())), shape=(n, n)),
    "scipy csr_array": lambda i, w, n: scipy.sparse.csr_array((w.numpy(), tuple(i.numpy())), shape=(n, n)),
    "scipy csc_array": lambda i, w, n: scipy.sparse.csc_array((w.numpy(), tuple(i.numpy())), shape=(n, n)),
    "scipy coo_matrix": lambda i, w, n: scipy.sparse.coo_matrix((w.numpy(), tuple(i.numpy())), shape=(n, n)),
    "scipy csr_matrix": lambda i, w, n: scipy.sparse.csr_matrix((w.numpy(), tuple(i.numpy())), shape=(n, n)),
    "stand-in": lambda i, w, n: SparseTensorStandIn(i[0], i[1], w, (n, n)),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("symmetrize", list(COMBINE))
@pytest.mark.parametrize("form", list(FORMS))
def test_every_kind_of_sparse_matrix_gives_the_graph_of_its_edges(form, symmetrize):
    edge_index, weight, n = random_multigraph(dtype=torch.float64)
    expected, _ = canonical_graph(edge_index, weight, n, symmetrize)
    result, _ = canonical_graph(FORMS[form](edge_index, weight, n), symmetrize=symmetrize)
    assert torch.equal(result.edge_index, expected.edge_index)
    torch.testing.assert_close(result.edge_weight, expected.edge_weight, rtol=1e-14, atol=0)  # summed in another order
    assert result.num_nodes == n


@pytest.mark.parametrize("make", [EdgeIndex, torch.Tensor.int], ids=["EdgeIndex", "int32"])
def test_every_kind_of_edge_index_gives_a_plain_one(make):
    edge_index, weight, n = random_multigraph()
    result, _ = canonical_graph(make(edge_index), weight, n)
    assert_same_graph(result, canonical_graph(edge_index, weight, n)[0])
    assert type(result.edge_index) is torch.Tensor
    assert result.edge_index.dtype == torch.long


@pytest.mark.parametrize("symmetrize", list(COMBINE))
def test_a_torch_sparse_tensor_gives_the_same_graph(symmetrize):
    if not available("torch_sparse"):
        pytest.skip("torch_sparse is not installed")
    from torch_sparse import SparseTensor

    edge_index, weight, n = random_multigraph(dtype=torch.float64)
    adj_t = SparseTensor(row=edge_index[1], col=edge_index[0], value=weight, sparse_sizes=(n, n))
    assert_same_graph(
        canonical_graph(adj_t, symmetrize=symmetrize)[0], canonical_graph(edge_index, weight, n, symmetrize)[0]
    )


def test_a_sparse_tensor_without_values_weighs_one():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    graph, _ = canonical_graph(SparseTensorStandIn(*edge_index, None, (4, 4)))
    assert graph.edge_weight.tolist() == [1.0, 1.0]
    assert graph.num_nodes == 4


@pytest.mark.parametrize("symmetrize", list(COMBINE))
@given(graph=multigraphs())
def test_the_transposed_graph_is_the_same(symmetrize, graph):
    edge_index, weight, n = graph
    expected, _ = canonical_graph(edge_index, weight, n, symmetrize)
    assert_same_graph(canonical_graph(edge_index.flip(0), weight, n, symmetrize)[0], expected)
    adj_t = sparse_coo(edge_index.flip(0), weight, (n, n))
    assert_same_graph(canonical_graph(adj_t, symmetrize=symmetrize)[0], expected)


@pytest.mark.parametrize("symmetrize", list(COMBINE))
@given(seed=st.integers(0, 10_000))
def test_the_order_of_the_edges_changes_no_bit(symmetrize, seed):
    edge_index, weight, n = random_multigraph(seed, num_nodes=5)  # float32, about eight repeats of every edge
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(seed))
    expected, notes = canonical_graph(edge_index, weight, n, symmetrize)
    result, shuffled_notes = canonical_graph(edge_index[:, order], weight[order], n, symmetrize)
    assert_same_graph(result, expected)
    assert torch.equal(result.degree, expected.degree)
    assert shuffled_notes == notes


@given(graph=multigraphs(), seed=st.integers(0, 10_000))
def test_relabelled_nodes_give_the_relabelled_graph(graph, seed):
    edge_index, weight, n = graph
    label = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    expected = dense_adjacency(canonical_graph(edge_index, weight, n)[0])
    result = dense_adjacency(canonical_graph(label[edge_index], weight, n)[0])
    np.testing.assert_array_equal(result[np.ix_(label, label)], expected)


def test_a_canonical_graph_stays_as_it_is():
    graph, _ = canonical_graph(*random_multigraph())
    again, _ = canonical_graph(graph.edge_index, graph.edge_weight, graph.num_nodes)
    assert_same_graph(again, graph)


@pytest.mark.parametrize(
    ("given_dtype", "expected"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.float16, torch.float32),
        (torch.int64, torch.float32),
        (torch.int32, torch.float32),
        (torch.bool, torch.float32),
    ],
)
def test_floating_type_is_kept_and_others_become_the_default(given_dtype, expected):
    graph, _ = canonical_graph(torch.tensor([[0, 1], [1, 2]]), torch.ones(2).to(given_dtype))
    assert graph.edge_weight.dtype == graph.degree.dtype == expected
    assert graph.edge_weight.tolist() == [1.0, 1.0]


def test_integer_weights_follow_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        graph, _ = canonical_graph(torch.tensor([[0], [1]]), torch.tensor([3]))
    finally:
        torch.set_default_dtype(torch.float32)
    assert graph.edge_weight.dtype == torch.float64


def test_a_column_of_weights_is_taken_as_weights():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    graph, _ = canonical_graph(edge_index, torch.tensor([[1.0], [2.0]]))
    assert graph.edge_weight.tolist() == [1.0, 2.0]


def test_inputs_are_not_modified():
    edge_index, weight, n = random_multigraph()
    weight[::7] = 0
    weight.requires_grad_()
    before = edge_index.clone(), weight.detach().clone()
    graph, _ = canonical_graph(edge_index, weight, n)
    graph.edge_weight.fill_(-1)
    graph.edge_index.fill_(-1)
    assert torch.equal(edge_index, before[0])
    assert torch.equal(weight.detach(), before[1])
    assert not graph.edge_weight.requires_grad


def test_a_scipy_matrix_is_not_modified_nor_shared():
    matrix = scipy.sparse.csr_array(np.array([[0, 2.0, 0], [0, 0, 3.0], [0, 0, 1.0]]))
    before = matrix.toarray()
    graph, _ = canonical_graph(matrix)
    graph.edge_weight.fill_(-1)
    np.testing.assert_array_equal(matrix.toarray(), before)


# What it reports.


def test_notes_count_every_repair():
    #                           loops  zeros  0→1 three times, 1→0  2→3 only
    edge_index = torch.tensor([[4, 4, 0, 2, 0, 0, 0, 1, 2, 3], [4, 4, 3, 4, 1, 1, 1, 0, 3, 3]])
    edge_weight = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    _, notes = canonical_graph(edge_index, edge_weight)
    assert notes == [
        "3 self-loop(s) dropped",
        "2 edge(s) of weight 0 dropped",
        "2 repeated edge(s) summed",
        "1 one-way edge(s) taken both ways (symmetrize='max')",
    ]
    assert canonical_graph(edge_index, edge_weight, symmetrize="mutual")[1][-1] == (
        "1 one-way edge(s) dropped (symmetrize='mutual')"
    )


@given(graph=multigraphs())
def test_notes_agree_with_counting(graph):
    edges = [(i, j) for (i, j), w in zip(graph[0].t().tolist(), graph[1].tolist(), strict=True) if i != j and w > 0]
    loops = int((graph[0][0] == graph[0][1]).sum())
    counts = {
        "self-loop(s) dropped": loops,
        "edge(s) of weight 0 dropped": graph[1].numel() - loops - len(edges),
        "repeated edge(s) summed": len(edges) - len(set(edges)),
        "one-way edge(s) taken both ways (symmetrize='max')": len({e for e in edges if e[::-1] not in edges}),
    }
    _, notes = canonical_graph(*graph)
    assert notes == [f"{count} {phrase}" for phrase, count in counts.items() if count]


def test_a_clean_graph_needs_no_note():
    assert canonical_graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))[1] == []


# What it offers.


@given(graph=multigraphs())
def test_degree_and_adjacency_agree_with_dense_algebra(graph):
    result, _ = canonical_graph(*graph)
    dense = dense_adjacency(result)
    np.testing.assert_allclose(result.degree.numpy(), dense.sum(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(result.adjacency.to_dense().numpy(), dense)
    assert result.adjacency.layout == torch.sparse_csr


def test_degree_is_summed_in_double_precision():
    # A star of 2^24 + 8 in weight: single precision would lose the small edges one by one.
    num_leaves = 9
    edge_index = torch.stack([torch.zeros(num_leaves, dtype=torch.long), torch.arange(1, num_leaves + 1)])
    weight = torch.tensor([2.0**24] + [1.0] * (num_leaves - 1))
    graph, _ = canonical_graph(edge_index, weight)
    assert float(graph.degree[0]) == 2**24 + 8


@given(graph=multigraphs(), seed=st.integers(0, 10_000))
def test_subgraph_is_the_dense_submatrix(graph, seed):
    result, _ = canonical_graph(*graph)
    keep = np.random.default_rng(seed).random(result.num_nodes) < 0.6
    part = result.subgraph(torch.from_numpy(keep))
    assert part.num_nodes == keep.sum()
    np.testing.assert_array_equal(dense_adjacency(part), dense_adjacency(result)[np.ix_(keep, keep)])


def test_other_weights_leave_the_edges_and_renew_the_degree():
    graph = random_graph(0)
    degree = graph.degree.clone()
    other = graph.with_weight(3 * graph.edge_weight)
    assert torch.equal(other.edge_index, graph.edge_index)
    torch.testing.assert_close(other.degree, 3 * degree)
    assert torch.equal(graph.degree, degree)


def test_a_graph_cannot_be_changed_in_place():
    graph = CanonicalGraph(torch.tensor([[0], [1]]), torch.tensor([1.0]), 2)
    with pytest.raises(AttributeError):
        graph.num_nodes = 3


# What it refuses.

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (EDGES.t().contiguous(), r"'edge_index' must be of shape \[2, num_edges\], got \[3, 2\]"),
        (EDGES[0], r"'edge_index' must be of shape \[2, num_edges\], got \[3\]"),
        (EDGES.unsqueeze(0), r"'edge_index' must be of shape"),
        (torch.zeros(0, dtype=torch.long), r"'edge_index' must be of shape"),
        (EDGES.float(), "'edge_index' must be of dtype torch.int64, got torch.float32"),
        (EDGES.bool(), "'edge_index' must be of dtype torch.int64, got torch.bool"),
        (torch.zeros(2, 0), "'edge_index' must be of dtype torch.int64, got torch.float32"),
        (torch.tensor([[0, -2], [1, 0]]), r"'edge_index' must hold node numbers >= 0, got -2 in column\(s\) 1"),
        ([[0, 1], [1, 2]], "'edge_index' must be a tensor .* got list"),
        (EDGES.numpy(), "'edge_index' must be a tensor .* got ndarray"),
        (None, "'edge_index' must be a tensor .* got NoneType"),
    ],
)
def test_a_bad_edge_index_is_refused(edge_index, message):
    with pytest.raises(ValueError, match=message):
        canonical_graph(edge_index)


def test_a_node_outside_the_graph_is_refused():
    with pytest.raises(ValueError, match=r"'edge_index' .* num_nodes = 2, got 2 in column\(s\) 1, 2"):
        canonical_graph(EDGES, num_nodes=2)


def test_many_bad_columns_are_counted_not_listed():
    edge_index = torch.full((2, 100), -1)
    with pytest.raises(ValueError, match=r"'edge_index' .* column\(s\) 0, 1, 2, 3, 4, … \(100 in all\)"):
        canonical_graph(edge_index)


@pytest.mark.parametrize(
    ("edge_weight", "message"),
    [
        (torch.tensor([1.0, -0.5, 1.0]), r"'edge_weight' must be finite and >= 0, got -0.5 at position\(s\) 1"),
        (torch.tensor([1.0, 1.0, float("nan")]), r"'edge_weight' must be finite .* got nan at position\(s\) 2"),
        (torch.tensor([float("inf"), 1.0, 1.0]), r"'edge_weight' must be finite .* got inf at position\(s\) 0"),
        (torch.tensor([1, -1, 1]), r"'edge_weight' must be finite and >= 0, got -1.0 at position\(s\) 1"),
        (torch.ones(2), r"'edge_weight' must be of shape \[num_edges\] = \[3\], got \[2\]"),
        (torch.ones(3, 2), r"'edge_weight' must be of shape \[num_edges\] = \[3\], got \[3, 2\]"),
        (torch.ones(1, 3), r"'edge_weight' must be of shape"),
        (torch.tensor(1.0), r"'edge_weight' must be of shape"),
        (torch.ones(3, dtype=torch.complex64), "'edge_weight' must be of a real dtype, got torch.complex64"),
        (torch.ones(3, device="meta"), "'edge_weight' must be on the device of 'edge_index', cpu, got meta"),
        ([1.0, 1.0, 1.0], "'edge_weight' must be a torch.Tensor, got list"),
    ],
)
def test_a_bad_weight_is_refused(edge_weight, message):
    with pytest.raises(ValueError, match=message):
        canonical_graph(EDGES, edge_weight)


@pytest.mark.parametrize("num_nodes", [-1, 3.0, True, "3"])
def test_a_bad_number_of_nodes_is_refused(num_nodes):
    with pytest.raises(ValueError, match="'num_nodes' must be an integer >= 0"):
        canonical_graph(EDGES, num_nodes=num_nodes)


@pytest.mark.parametrize("symmetrize", ["sum", "", 1, ["max"]])
def test_an_unknown_rule_is_refused_with_the_valid_ones(symmetrize):
    with pytest.raises(ValueError, match="'symmetrize' must be one of 'max', 'mean', 'mutual', got"):
        canonical_graph(EDGES, symmetrize=symmetrize)


ONE_EDGE = {
    "torch": lambda shape: sparse_coo(EDGES[:, :1], torch.ones(1), shape),
    "scipy": lambda shape: scipy.sparse.coo_array(([1.0], ([0], [1])), shape=shape),
    "stand-in": lambda shape: SparseTensorStandIn(*EDGES[:, :1], torch.ones(1), shape),
}


@pytest.mark.parametrize("make", ONE_EDGE.values(), ids=ONE_EDGE)
def test_a_bad_sparse_matrix_is_refused(make):
    with pytest.raises(ValueError, match=r"sparse matrix must be square, got shape \[3, 4\]"):
        canonical_graph(make((3, 4)))
    with pytest.raises(ValueError, match="'edge_weight' must be None when the graph is a sparse matrix"):
        canonical_graph(make((3, 3)), torch.ones(1))
    with pytest.raises(ValueError, match=r"sparse matrix must be of shape \[4, 4\], got \[3, 3\]"):
        canonical_graph(make((3, 3)), num_nodes=4)


@pytest.mark.parametrize(
    ("value", "message"), [(-1.0, "finite and >= 0"), (float("nan"), "finite and >= 0"), (1j, "real dtype")]
)
def test_bad_values_of_a_sparse_matrix_are_refused(value, message):
    for matrix in (
        sparse_coo(EDGES[:, :1], torch.tensor([value]), (3, 3)),
        scipy.sparse.coo_array((np.array([value]), ([0], [1])), shape=(3, 3)),
    ):
        with pytest.raises(ValueError, match=f"'edge_weight' must be .*{message}"):
            canonical_graph(matrix)


def test_a_sparse_matrix_with_values_that_are_vectors_is_refused():
    with pytest.raises(ValueError, match=r"sparse matrix must be square, got shape \[3, 3, 2\]"):
        canonical_graph(sparse_coo(EDGES, torch.ones(3, 2), (3, 3, 2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_whose_sum_is_beyond_the_range_are_divided_by_a_power_of_two(dtype):
    most = torch.finfo(dtype).max
    edge_index = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 2, 3, 3]])
    weight = torch.tensor([most, most, most / 2, torch.finfo(dtype).tiny, most / 4], dtype=dtype)
    graph, notes = canonical_graph(edge_index, weight, 4)
    assert any("power of two" in note for note in notes)
    assert bool(torch.isfinite(graph.degree).all())
    relative = graph.edge_weight / graph.edge_weight[0]
    assert relative[[0, 1, 3]].tolist() == [1, 1 / 4, 1 / 8]
    assert float(graph.edge_weight.min()) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("largest", [1e30, 1e-30])
def test_the_safe_range_keeps_mantissas_and_ends_at_one(dtype, largest):
    graph = random_graph(0, dtype=dtype)
    weight = graph.edge_weight / graph.edge_weight.max() * largest
    scaled = graph.with_weight(weight).in_safe_range()
    assert 0.5 < float(scaled.edge_weight.max()) <= 1
    assert torch.equal(torch.frexp(scaled.edge_weight)[0], torch.frexp(weight)[0])
    assert len(torch.unique(torch.frexp(scaled.edge_weight)[1] - torch.frexp(weight)[1])) == 1


@pytest.mark.parametrize("largest", [1e-5, 0.75, 1.0, 1e5])
def test_ordinary_weights_are_left_as_they_are(largest):
    graph = random_graph(0)
    graph = graph.with_weight(graph.edge_weight / graph.edge_weight.max() * largest)
    assert graph.in_safe_range() is graph


def test_weights_that_vanish_beside_the_largest_keep_their_nodes_connected():
    graph = canonical_graph(torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([1e38, 1e-44, 1e38]), 4)[0]
    safe = graph.in_safe_range()
    assert safe.num_components == 1
    assert float(safe.edge_weight[1] / safe.edge_weight[0]) == pytest.approx(2.0**-60)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_rows_hold_all_neighbours_in_order_and_the_numbers_of_their_edges(seed, compiled, monkeypatch):
    monkeypatch.setattr("tg_crepe.graph.canonical.available", lambda name: compiled)
    graph = random_graph(seed, 40, density=0.15 * seed)
    rowptr, col, edge = graph.csr_pattern
    assert col.dtype == edge.dtype == rowptr.dtype == torch.int32
    first, second = graph.edge_index.tolist()
    for node in range(40):
        row = slice(int(rowptr[node]), int(rowptr[node + 1]))
        ends = enumerate(zip(first, second, strict=True))
        expected = [(a if b == node else b, e) for e, (a, b) in ends if node in (a, b)]
        assert list(zip(col[row].tolist(), edge[row].tolist(), strict=True)) == sorted(expected)
