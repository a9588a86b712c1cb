"""The benchmark from end to end: what is counted, and what the ratios are of."""

import end_to_end
import pytest
import torch


def row(part, what, seconds, own, turn=1, note=""):
    return {
        "part": part, "what": what, "round": turn, "seconds": seconds, "processor": own, "note": note, "load": 1.0,
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
    assert "| *faiss flat, bare* | 2.00 | 1.00–9.00 | 4.00 | 2.00–18.00 | 1.00 | 1.00 | – |" in text
    assert "| knn_graph, exact | 3.00 | 3.00–3.00 | 3.00 | 3.00–3.00 | 1.50 | 0.75 | – |" in text


def test_calls_are_compared_with_the_quickest_of_the_others():
    rows = [row("call", "CREPE", 1.0, 1.0, note="error 9.00 %"), row("call", "GraphLearning laplace", 4.0, 4.0)]
    rows.append(row("call", "GraphLearning poisson", 2.0, 2.0))
    text = end_to_end.summary(rows)
    assert "| *GraphLearning poisson* | 2.00" in text
    assert "| CREPE | 1.00 | 1.00–1.00 | 1.00 | 1.00–1.00 | 0.50 | 0.50 | error 9.00 % |" in text


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


def test_an_approximate_search_is_compared_with_the_quickest_of_its_recall():
    rows = [row("lists", "faiss, few", 1.0, 1.0, note="recall 0.9500")]
    rows += [row("lists", f"faiss, {s}", s, s, note="recall 0.9930") for s in (3.0, 2.0)]
    rows.append(row("lists", "knn_graph, approximate", 4.0, 4.0, note="recall 0.9920"))
    text = end_to_end.summary(rows)
    assert "| *faiss, 2.0* |" in text
    assert "| knn_graph, approximate | 4.00 | 4.00–4.00 | 4.00 | 4.00–4.00 | 2.00 | 2.00 | recall 0.9920 |" in text


def test_notes_say_recall_bits_and_memory():
    data = object.__new__(end_to_end.Data)
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    data.unit, data.y = x.numpy(), torch.zeros(40)
    notes = end_to_end.Notes("graph", data)
    near = torch.cdist(x, x).topk(21, largest=False)[1].numpy()
    assert notes.of(near) == "recall 1.0000"
    assert notes.of(near[:, :11]) == "recall 0.5000"
    assert notes.of({"peak_gb": 3.0, "dual_gb": 2.0}) == "peak 1.50 × a dual in 32 bits"


def test_calls_on_a_made_graph_say_their_error():
    found = end_to_end.million_nodes(2_000)
    assert {"CREPE", "CREPE, prepared graph"} <= set(found)
    assert found["CREPE"]() == found["CREPE, prepared graph"]()
    assert str(found["CREPE"]()).startswith("error ")
