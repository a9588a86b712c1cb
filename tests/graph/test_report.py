import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import graph_report
from tg_crepe._optional import available
from tg_crepe.graph import GraphReport

# Nodes {0, 1, 2, 3}, {4, 5}, {6}, {7}: parts with and without a label, one repeat, one-way edge, zero and loop.
EDGES = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 3), (3, 0), (4, 5), (5, 4), (4, 5), (2, 3), (6, 7), (7, 7)]
EDGE_INDEX = torch.tensor(EDGES).t()
EDGE_WEIGHT = torch.tensor([1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 1.0, 2.0, 1.0, 0.5, 0.0, 1.0])
MASK = torch.tensor([True, False, True, False, False, False, False, True])
Y = torch.tensor([0, 0, 1, 0, 1, 1, -1, 1])


def test_every_field_of_a_small_graph_is_exact():
    # Edges: 0-1 (1), 1-2 (2), 0-3 (4), 2-3 (0.5), 4-5 (2); degrees 5, 3, 2.5, 4.5, 2, 2, 0, 0.
    assert graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y) == GraphReport(
        num_nodes=8,
        num_edges=5,
        num_labels=3,
        isolated_nodes=2,
        components=4,
        components_without_label=2,
        unreached_nodes=3,
        degree_min=0.0,
        degree_median=2.0,
        degree_max=5.0,
        homophily=7 / 9.5,  # 0-1, 0-3 and 4-5 lie within a class
        repairs=(
            "1 self-loop(s) dropped",
            "1 edge(s) of weight 0 dropped",
            "1 repeated edge(s) summed",
            "1 one-way edge(s) taken both ways (symmetrize='max')",
        ),
    )


def test_fields_are_plain_values():
    fields = graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y).to_dict()
    assert fields["num_edges"] == 5
    assert {type(value) for value in fields.values()} == {int, float, tuple}


def test_the_text_holds_the_counts_and_the_repairs():
    lines = str(graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y)).splitlines()
    numbers = {line[:24].strip(): line[24:].split()[0] for line in lines[:6]}
    assert numbers == {
        "nodes": "8",
        "edges (each once)": "5",
        "labelled nodes": "3",
        "isolated nodes": "2",
        "components": "4",
        "without a label": "2",
    }
    assert "3 nodes" in lines[5]
    assert lines[6].split(maxsplit=2)[2] == "0 / 2 / 5"
    assert "0.737" in lines[7]
    assert lines[8:] == [
        "repaired: 1 self-loop(s) dropped",
        "repaired: 1 edge(s) of weight 0 dropped",
        "repaired: 1 repeated edge(s) summed",
        "repaired: 1 one-way edge(s) taken both ways (symmetrize='max')",
    ]


def test_without_classes_there_is_no_homophily():
    report = graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK)
    assert report.homophily is None
    assert "homophily" not in str(report)


def test_edges_to_unknown_classes_are_left_out_of_the_homophily():
    y = Y.clone()
    y[1] = -1  # leaves 0-3 (4, same), 2-3 (0.5, other), 4-5 (2, same)
    assert graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, y).homophily == 6 / 6.5
    assert graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, torch.full((8,), -1)).homophily is None


@given(seed=st.integers(0, 10_000))
def test_homophily_agrees_with_dense_algebra(seed):
    rng = np.random.default_rng(seed)
    w = np.triu(rng.random((10, 10)) * (rng.random((10, 10)) < 0.4), 1)
    y = rng.integers(-1, 3, 10)
    known = (y[:, None] >= 0) & (y[None] >= 0)
    total = w[known].sum()
    edges = torch.from_numpy(np.stack(w.nonzero()))
    value = graph_report(edges, torch.from_numpy(w[w.nonzero()]), torch.tensor([0]), torch.from_numpy(y)).homophily
    if total == 0:
        assert value is None
    else:
        np.testing.assert_allclose(value, w[known & (y[:, None] == y[None])].sum() / total, rtol=1e-12)


def test_a_column_of_classes_is_taken_as_classes():
    assert graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y[:, None]) == graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y)


def test_indices_are_the_same_as_a_bool_mask():
    for mask in (torch.tensor([7, 0, 2]), torch.tensor([0, 2, 7, 2], dtype=torch.int32), MASK[:, None]):
        assert graph_report(EDGE_INDEX, EDGE_WEIGHT, mask, Y) == graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y)


def test_the_number_of_nodes_comes_from_the_classes_the_mask_or_the_graph():
    edge_index, index = torch.tensor([[0], [1]]), torch.tensor([0])
    assert graph_report(edge_index, None, index).num_nodes == 2
    assert graph_report(edge_index, None, torch.ones(3, dtype=torch.bool)).num_nodes == 3
    assert graph_report(edge_index, None, index, torch.zeros(4, dtype=torch.long)).num_nodes == 4
    assert graph_report(edge_index, None, index, num_nodes=5).num_nodes == 5


def test_without_labels_nothing_is_reached():
    report = graph_report(EDGE_INDEX, EDGE_WEIGHT, torch.zeros(8, dtype=torch.bool))
    assert (report.num_labels, report.components_without_label, report.unreached_nodes) == (0, 4, 8)


def test_a_graph_of_no_nodes_can_be_reported():
    report = graph_report(torch.zeros(2, 0, dtype=torch.long), None, torch.zeros(0, dtype=torch.bool))
    assert (report.num_nodes, report.num_edges, report.components, report.degree_max) == (0, 0, 0, 0.0)


@pytest.mark.skipif(not available("torch_sparse"), reason="torch_sparse is not installed")
def test_a_torch_sparse_tensor_can_be_reported():
    from torch_sparse import SparseTensor

    adj_t = SparseTensor(row=EDGE_INDEX[1], col=EDGE_INDEX[0], value=EDGE_WEIGHT, sparse_sizes=(8, 8))
    assert graph_report(adj_t, None, MASK, Y) == graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, Y)


def test_inputs_are_not_modified():
    inputs = EDGE_INDEX, EDGE_WEIGHT, MASK, Y
    before = [value.clone() for value in inputs]
    graph_report(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(7, dtype=torch.bool), r"'mask' must be of shape \[num_nodes\] = \[8\], got \[7\]"),
        (torch.ones(8, 3, dtype=torch.bool), "'mask' .* holds several splits, pick one"),
        (torch.ones(8), "'mask' must be bool .* got torch.float32"),
        (torch.tensor([0, 8]), r"'mask' must hold node indices in \[0, 7\], got 8"),
        (torch.tensor([-1]), r"'mask' must hold node indices in \[0, 7\], got -1"),
        ([True] * 8, "'mask' must be a torch.Tensor, got list"),
        (None, "'mask' must be a torch.Tensor, got NoneType"),
    ],
)
def test_a_bad_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        graph_report(EDGE_INDEX, EDGE_WEIGHT, mask, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(8, 3), r"'y' must be of shape \[num_nodes\] .* got \[8, 3\]"),
        (torch.tensor(1), r"'y' must be of shape \[num_nodes\] .* got \[\]"),
        ([0] * 8, "'y' must be a torch.Tensor, got list"),
    ],
)
def test_bad_classes_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, y)


@pytest.mark.parametrize("length", [7, 9])
def test_classes_of_another_number_of_nodes_are_refused(length):
    with pytest.raises(ValueError, match=rf"'y' must be of shape \[num_nodes\] = \[8\] .* got \[{length}\]"):
        graph_report(EDGE_INDEX, EDGE_WEIGHT, MASK, torch.zeros(length), num_nodes=8)


def test_a_bad_graph_is_refused():
    with pytest.raises(ValueError, match="'edge_weight' must be of shape"):
        graph_report(EDGE_INDEX, torch.ones(2), MASK)
