import sys

import numpy as np
import pytest
import torch
from helpers import clusters

from tg_crepe import LGC, GraphWarning


def propagate(multi_label: bool = False):
    graph, y = clusters(0, num_nodes=60)
    y = torch.cat([y, torch.tensor([0])])  # the last node has no edge
    mask = torch.arange(61) < 12
    findings = torch.stack([(y == 0), (y == 1)], dim=1).long() if multi_label else y
    with pytest.warns(GraphWarning, match=r"1 node\(s\) lie in components without a label"):
        return LGC().propagate(findings, graph.edge_index, mask, graph.edge_weight)


def test_a_table_has_the_columns_of_the_command_and_the_numbers_of_the_result():
    pytest.importorskip("pandas", reason="tables need the extra 'pandas'")
    result = propagate()
    table = result.to_pandas()
    assert list(table) == ["label", "prob_0", "prob_1", "prob_2", "certainty", "reached", "labelled"]
    assert table.index.name == "id"
    assert table.index.tolist() == list(range(61))
    assert table.label[:60].tolist() == result.label[:60].tolist()
    assert table.label.isna().tolist() == [False] * 60 + [True]
    assert np.array_equal(table[["prob_0", "prob_1", "prob_2"]], result.prob)
    assert np.array_equal(table.certainty, result.certainty)
    assert np.array_equal(table.reached, result.reached)
    assert table.labelled.tolist() == [True] * 12 + [False] * 49


def test_rows_and_classes_may_have_names():
    pytest.importorskip("pandas", reason="tables need the extra 'pandas'")
    result, names = propagate(), ["cat", "dog", "bird"]
    table = result.to_pandas([f"file {i}" for i in range(61)], names)
    assert table.index[5] == "file 5"
    assert table.label.iloc[:60].tolist() == [names[c] for c in result.label[:60]]
    assert "prob_bird" in table


def test_findings_have_a_column_each():
    pytest.importorskip("pandas", reason="tables need the extra 'pandas'")
    result = propagate(multi_label=True)
    table = result.to_pandas(class_names=["a", "b"])
    assert list(table)[:4] == ["label_a", "label_b", "prob_a", "prob_b"]
    assert table.label_a.iloc[:60].tolist() == result.label[:60, 0].tolist()
    assert bool(table.label_a.isna().iloc[60])


def test_changes_of_the_table_do_not_reach_the_result():
    pytest.importorskip("pandas", reason="tables need the extra 'pandas'")
    result = propagate()
    before = result.prob.clone()
    table = result.to_pandas()
    table.loc[:, "prob_0"] = 7.0
    assert torch.equal(result.prob, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": ["a", "b"]}, r"'ids' must hold num_nodes = 61 different names, got 2$"),
        ({"ids": ["a"] * 61}, r"'ids' .* got 61, some of them alike"),
        ({"class_names": ["a", "b"]}, r"'class_names' must hold num_classes = 3 different names, got 2"),
    ],
)
def test_names_must_fit(options, message):
    with pytest.raises(ValueError, match=message):
        propagate().to_pandas(**options)


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    result = propagate()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install \"tg-crepe\[pandas\]\""):
        result.to_pandas()
