"""The benchmark from end to end: what is counted, and what the ratios are of."""

import end_to_end
import pytest
import torch


def row(part, what, seconds, own, turn=1, error=""):
    return {
        "part": part, "what": what, "round": turn, "seconds": seconds, "processor": own, "error": error, "load": 1.0,
    }  # fmt: skip


def test_the_first_call_of_each_is_not_counted_and_calls_take_turns():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in ("one", "other")}
    rows = end_to_end.measure("graph", calls, 2, None)
    assert order == ["one", "other"] * 3
    assert [(r["what"], r["round"]) for r in rows] == [("one", 1), ("other", 1), ("one", 2), ("other", 2)]
    assert all(float(r["seconds"]) >= 0 and float(r["processor"]) >= 0 for r in rows)


def test_ratios_are_those_of_medians_to_the_row_of_comparison():
    rows = [row("graph", "faiss flat, bare", s, 2 * s) for s in (1.0, 2.0, 9.0)]
    rows += [row("graph", "knn_graph, exact", s, s) for s in (3.0, 3.0, 3.0)]
    text = end_to_end.summary(rows)
    assert "| *faiss flat, bare* | 2.00 | 1.00–9.00 | 4.00 | 1.00 | 1.00 | – |" in text
    assert "| knn_graph, exact | 3.00 | 3.00–3.00 | 3.00 | 1.50 | 0.75 | – |" in text


def test_calls_are_compared_with_the_quickest_of_the_others():
    rows = [row("call", "CREPE", 1.0, 1.0, error="9.000"), row("call", "GraphLearning laplace", 4.0, 4.0)]
    rows.append(row("call", "GraphLearning poisson", 2.0, 2.0))
    text = end_to_end.summary(rows)
    assert "| *GraphLearning poisson* | 2.00" in text
    assert "| CREPE | 1.00 | 1.00–1.00 | 1.00 | 0.50 | 0.50 | 9.000 |" in text


def test_many_classes_have_a_label_each_and_a_graph():
    y, mask, edge_index, weight = end_to_end.blobs(300, 30)
    assert y[mask].tolist() == list(range(30))
    assert int(edge_index.max()) == 299
    assert bool((weight > 0).all())


def test_a_busy_core_is_left_when_the_call_ends():
    with pytest.raises(RuntimeError, match="in the middle"), end_to_end.busy_core():
        raise RuntimeError("in the middle")


def test_an_error_is_that_of_unlabelled_rows():
    data = object.__new__(end_to_end.Data)
    data.y, data.mask = torch.tensor([0, 1, 1, 0]), torch.tensor([True, False, False, False])
    assert data.error([1, 1, 0, 0]) == pytest.approx(100 / 3)
