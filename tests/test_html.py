from __future__ import annotations

from html.parser import HTMLParser

import torch

from tg_crepe import LGC, graph_report, knn_graph
from tg_crepe._html import bar_table, pair_table


class Cells(HTMLParser):
    """The texts of the cells of a table, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_texts_are_escaped():
    evil = "<script>alert('x')</script>"
    for page in (bar_table(evil, [(evil, evil, 0.5)]), pair_table(evil, [(evil, evil)])):
        assert "<script" not in page
        assert Cells(page).texts == [evil] * 3


def test_bars_stay_within_their_cell():
    page = bar_table("", [("a", "", -1.0), ("b", "", 0.5), ("c", "", 7.0)])
    assert [f"width:{width}px" in page for width in (0, 75, 150)] == [True] * 3
    assert "width:1050px" not in page


def test_a_result_and_a_graph_are_tables_in_a_notebook():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)) + 6 * (torch.arange(60) % 2).unsqueeze(1)
    y = torch.where(torch.arange(60) < 4, torch.arange(60) % 2, -1)
    edge_index, edge_weight = knn_graph(x, 5)
    result = LGC().propagate(y, edge_index, y >= 0, edge_weight)
    texts = Cells(result._repr_html_()).texts
    assert texts[0].startswith("60 nodes, 56 pseudo-labels, converged")
    assert repr(result) == f"PropagationResult({texts[0]})"  # no tensor in a plain session either
    assert [texts[texts.index(name) + 1] for name in ("class 0", "class 1")] == ["30", "30"]
    report = graph_report(edge_index, edge_weight, y >= 0, num_nodes=60)
    shown = Cells(report._repr_html_()).texts
    assert shown[shown.index("labelled nodes") + 1] == "4"
    assert shown[shown.index("edges (each once)") + 1] == f"{report.num_edges:,}"


def test_findings_are_counted_one_by_one():
    y = torch.tensor([[1, 0], [0, 1], [-1, -1], [-1, -1]])
    edge_index = torch.tensor([[0, 0, 1, 2, 2, 3, 3, 3], [2, 3, 3, 3, 0, 0, 1, 2]])
    result = LGC().propagate(y, edge_index, torch.tensor([True, True, False, False]), num_classes=2)
    texts = Cells(result._repr_html_()).texts
    expected = [f"{int(count)}" for count in (result.label == 1).sum(dim=0)]
    assert [texts[texts.index(f"class {place}") + 1] for place in (0, 1)] == expected
