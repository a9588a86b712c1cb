"""Seconds by the number of rows and beside a busy process, from ``end_to_end.csv``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from contest.tables import link
from shared.table import markdown, read_rows

#: The columns of the table of sizes: what it calls them, and the parts of the file that they are made of.
_SIZES = {
    "1,000 rows": ("1,000 rows",),
    "10,000 rows": ("10,000 rows",),
    "70,000 rows": ("features", "call"),
    "1,000,000": ("a million nodes", "million"),
}

#: Its rows: what is timed in the file, all steps of it, and what the page calls it.
_TIMED = {
    ("knn_graph and CREPE",): "features to labels, CREPE",
    ("scikit-learn LabelSpreading",): "features to labels, scikit-learn's LabelSpreading",
    ("GraphLearning, Annoy and randomwalk",): "features to labels, GraphLearning with Annoy, randomwalk",
    ("CREPE",): "graph given, CREPE",
    ("CREPE, prepared graph",): "graph prepared, CREPE",
    ("CREPE, one more label",): "one more label, CREPE",
    ("GraphLearning laplace",): "graph given, GraphLearning's laplace",
    ("GraphLearning randomwalk",): "graph given, GraphLearning's randomwalk",
    ("GraphLearning poisson",): "graph given, GraphLearning's poisson",
}

#: At a million rows features to labels are two steps.
_STEPS = {("knn_graph and CREPE",): ("knn_graph, a million rows", "CREPE on it")}


def _middle(rows: list[dict[str, Any]], parts: tuple[str, ...], what: tuple[str, ...]) -> list[float] | None:
    """Median seconds on the clock and of the processor, of all steps together."""
    found = [[row for row in rows if row["part"] in parts and row["what"] == step] for step in what]
    if not all(found):
        return None
    return [sum(median(row[column] for row in own) for own in found) for column in ("seconds", "processor")]


def by_size(folder: Path) -> str | None:
    """Seconds of everything that was timed, by the number of rows."""
    rows = read_rows(folder / "end_to_end.csv")
    if not any(row["part"] in ("1,000 rows", "10,000 rows") for row in rows):
        return None
    body = []
    for what, name in _TIMED.items():
        found = [
            _middle(rows, parts, what) or _middle(rows, parts, _STEPS.get(what, what)) for parts in _SIZES.values()
        ]
        cells = ["–" if own is None else f"{_seconds(own[0])} ({_seconds(own[1])})" for own in found]
        body.append([f"**{name}**" if "CREPE" in name else name, *cells])
    told = (
        "Seconds on the clock, of the processor in brackets; medians. Up to 70,000 rows Fashion-MNIST as 128 principal "
        "components, half a per cent to one per cent of the labels (1,000 rows: five labels per class); a million: "
        "calls on the made graph of `benchmarks/scaling.py`, features to labels on made rows. – was not timed. "
        f"`python benchmarks/end_to_end.py`, and with `--parts 'a million nodes' million`: {link('end_to_end')}."
    )
    return "\n".join([*markdown(["seconds", *_SIZES], body), "", told])


def busy(folder: Path) -> str | None:
    """Seconds alone, beside a busy loop, and their ratio."""
    rows = [row for row in read_rows(folder / "end_to_end.csv") if row["part"] == "busy"]
    names = list(dict.fromkeys(row["what"].removesuffix(", quiet") for row in rows if row["what"].endswith(", quiet")))
    body = []
    for name in names:
        alone, beside = (_middle(rows, ("busy",), (f"{name}, {state}",)) for state in ("quiet", "a busy core"))
        if alone is not None and beside is not None:
            shown = f"**{name}**" if "CREPE" in name else name
            body.append([shown, _seconds(alone[0]), _seconds(beside[0]), f"{beside[0] / alone[0]:.2f}"])
    header = ["70,000 rows, seconds on the clock", "alone", "another process computes on one of two cores", "ratio"]
    return "\n".join(markdown(header, body)) if body else None


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


#: The parts by name.
MAKERS: dict[str, Callable[[Path], str | None]] = {"time_sizes": by_size, "time_busy": busy}
