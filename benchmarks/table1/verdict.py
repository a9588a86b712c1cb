"""CREPE against the best other model, on every data set that ``table1`` has measured, in one table.

"Best other" is chosen column by column by its error on the test labels, among all rows that are not CREPE's, and with
it the rows whose parameter was swept on test labels: it has the advantage.
"""

from __future__ import annotations

import csv
from pathlib import Path

from scipy.stats import ttest_rel
from shared import machine
from shared.page import fill
from table1.methods import MODEL, PEER, TUNED
from table1.report import Results

PAGE = machine.DOCS / "recipe.md"

HEAD = ("graph", "labels", "splits", "CREPE", "best other", "which is", "CREPE has", "p")


def lines(name: str, results: Results) -> list[str]:
    """A line a column."""
    found = []
    for column in results.errors:
        rival = results.best(column, results.methods(MODEL, PEER, TUNED))
        if rival is None:
            continue
        ours, theirs = results.pairs(column, rival)
        change = f"{100 * (ours.mean() / theirs.mean() - 1):+.1f} %" if theirs.mean() > 0 else "–"
        chance = f"{ttest_rel(ours, theirs).pvalue:.1e}" if len(ours) > 1 else "–"
        cells = (name, column, str(len(ours)), f"{ours.mean():.2f}", f"{theirs.mean():.2f}", rival, change, chance)
        found.append("| " + " | ".join(cells) + " |")
    return found


def read(path: Path) -> Results:
    """A table of ``table1``."""
    with path.open(newline="", encoding="utf-8") as file:
        return Results([dict(row) for row in csv.DictReader(file)])


def verdict_table(folder: Path) -> str:
    """The table of all ``table1*.csv`` of a folder."""
    rows = []
    for path in sorted(folder.glob("table1*.csv")):
        name = path.stem.removeprefix("table1").strip("_") or "fashion"
        if not name.endswith(("quick", "trial")):
            rows += lines(name.replace("_k", ", k = "), read(path))
    return "\n".join(["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|", *rows])


def write_verdict() -> str:
    """Writes ``verdict.md`` and its part of the page."""
    text = verdict_table(machine.RESULTS)
    machine.write_text(text + "\n", machine.RESULTS / "verdict.md")
    fill(PAGE, "verdict", text)
    return text
