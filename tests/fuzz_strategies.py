"""What hostile and careless users hand in, as hypothesis strategies; the contract is the oracle.

A property runs twice: a few examples with every run of the tests, and as many as ``TG_CREPE_FUZZ`` says (2,000 unless
it is set) with ``pytest -m fuzz``.
"""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LONG = int(os.environ.get("TG_CREPE_FUZZ", "2000"))


def fuzzed(quick: int, **strategies):
    """A property as a quick test and as a long one: ``quick, long = fuzzed(...)(property)``."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

    def decorate(claim):
        def once(count, database):
            options = {"max_examples": count, "deadline": None, "suppress_health_check": checks}
            return settings(**options, derandomize=not database, database=None)(given(**strategies)(claim))

        return once(quick, False), pytest.mark.fuzz(once(LONG, True))

    return decorate


@st.composite
def graphs(draw, max_nodes=12):
    """Edges of shape [2, num_edges], weights over the whole range of their type or none, and the number of nodes."""
    num_nodes = draw(st.integers(1, max_nodes))
    kind = draw(st.sampled_from(["star", "path", "complete", "bipartite", "islands", "random", "empty"]))
    pairs = {
        "star": [(0, i) for i in range(1, num_nodes)],
        "path": [(i, i + 1) for i in range(num_nodes - 1)],
        "complete": [(i, j) for i in range(num_nodes) for j in range(i)],
        "bipartite": [(i, j) for i in range(0, num_nodes, 2) for j in range(1, num_nodes, 2)],
        "islands": [(i, i + 1) for i in range(0, num_nodes - 1, 2)],
        "random": draw(st.lists(st.tuples(*[st.integers(0, num_nodes - 1)] * 2), max_size=40)),
        "empty": [],
    }[kind]
    ways = draw(st.sampled_from(["one", "both", "twice", "loops"]))
    if ways in ("both", "twice"):
        pairs = pairs + [(j, i) for i, j in pairs]
    if ways == "twice":
        pairs = pairs + pairs
    if ways == "loops":
        pairs = pairs + [(i, i) for i in range(num_nodes)]
    edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    width = 32 if dtype == torch.float32 else 64
    positive = st.floats(0, width=width, allow_nan=False, allow_infinity=False)
    magnitudes = {
        "ordinary": st.floats(0.0625, 1, width=width),
        "any": positive,
        "powers": st.integers(-140, 120).map(lambda e: float(torch.tensor(2.0**e, dtype=dtype))),
        "zeros": st.sampled_from([0.0, 1.0]),
    }
    spread = draw(st.sampled_from([None, *magnitudes]))
    if spread is None:
        return edge_index, None, num_nodes
    count = len(pairs)
    weight = draw(st.lists(magnitudes[spread], min_size=count, max_size=count))
    return edge_index, torch.tensor(weight, dtype=dtype), num_nodes


@st.composite
def labels(draw, num_nodes):
    """Classes with gaps, one class, all labelled, none, wrong ones; or findings."""
    kind = draw(st.sampled_from(["few", "one class", "all", "gaps", "huge", "none", "wrong", "findings"]))
    classes = {"one class": [3], "gaps": [0, 7, 50], "huge": [0, 2_000_000_000], "wrong": [-7, 0, 1]}.get(
        kind, [0, 1, 2]
    )
    if kind == "findings":
        value = st.lists(st.sampled_from([-1, 0, 1]), min_size=2, max_size=2)
        return torch.tensor(draw(st.lists(value, min_size=num_nodes, max_size=num_nodes)))
    choices = classes if kind == "all" else ([-1] if kind == "none" else [-1, *classes])
    return torch.tensor(draw(st.lists(st.sampled_from(choices), min_size=num_nodes, max_size=num_nodes)))


@st.composite
def propagations(draw):
    """A graph and labels for its nodes."""
    edge_index, weight, num_nodes = draw(graphs())
    return draw(labels(num_nodes)), edge_index, weight, num_nodes


#: Cells of a table: formulas, quotes, blanks, unicode, numbers with leading zeros, separators, line ends.
CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "=1+1",
            '"',
            "''",
            "007",
            "7",
            "a,b",
            "a;b",
            "a\nb",
            "é",
            "e\u0301",
            "😀",
            "\u200b",
            "nan",
            "NaN",
            "-1",
        ]
    ),
    st.sampled_from(["cat", "Cat", "cta", "dog", "horse", "horses", "None", "<b>", "../../etc", "x" * 300]),
    st.text(max_size=6),
)


@st.composite
def tables(draw):
    """The bytes of a table of labels as some program or somebody wrote it, and the ids of the features."""
    ids = [f"{i:03d}.png" for i in range(8)]
    mark = draw(st.sampled_from([",", ";", "\t", "|"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    header = draw(st.sampled_from([["id", "label"], ["label", "id"], ["id", "label", "note"], ["ID", "Label"], ["id"]]))
    quote = draw(st.sampled_from([False, True, None]))
    rows = draw(st.lists(st.tuples(st.sampled_from([*ids, "other"]), CELLS, CELLS), max_size=8))

    def cell(text):
        text = str(text)
        if quote is None:  # as a careless program does
            return text
        return '"' + text.replace('"', '""') + '"' if quote or any(c in text for c in '",;\t|\n\r') else text

    lines = [mark.join(map(cell, header))]
    for name, label, note in rows:
        values = {"id": name, "label": label, "note": note, "ID": name, "Label": label}
        lines.append(mark.join(cell(values[column]) for column in header))
    text = end.join(lines) + draw(st.sampled_from(["", end, end * 3]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-16-le"]))
    content = text.encode(encoding, "replace")
    cut = draw(st.sampled_from([None, None, None, 1, len(content) // 2]))
    return content[:cut], ids
