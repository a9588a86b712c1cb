"""CREPE against the best other model, on every data set that ``table1`` has measured, in one table.

"Best other" is chosen column by column by its error on the test labels, among all rows that are not CREPE's, and with
it the rows whose parameter was swept on test labels: it has the advantage.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import ttest_rel
from shared import machine
from shared.page import fill
from shared.table import markdown
from table1.methods import MODEL, PEER, TUNED
from table1.report import Results

PAGE = machine.DOCS / "recipe.md"

HEAD = ("graph", "labels", "splits", "CREPE", "best other", "which is", "CREPE has", "p")


@dataclass(frozen=True)
class Comparison:
    """CREPE and the best other model in a column of a graph.

    Args:
        graph (str): The graph.
        column (str): How many labels there are.
        splits (int): On how many draws of them both were run.
        ours (float): CREPE's mean error in per cent.
        theirs (float): That of the other.
        rival (str): Which it is.
        chance (float, optional): p of the paired t-test. (default: :obj:`None`, of one draw)
    """

    graph: str
    column: str
    splits: int
    ours: float
    theirs: float
    rival: str
    chance: float | None = None

    @property
    def change(self) -> float:
        """By what share of its errors CREPE has more."""
        return self.ours / self.theirs - 1 if self.theirs > 0 else 0.0

    def cells(self) -> list[str]:
        """The line of the table."""
        change = f"{100 * self.change:+.1f} %" if self.theirs > 0 else "–"
        chance = "–" if self.chance is None else f"{self.chance:.1e}"
        errors = (f"{self.ours:.2f}", f"{self.theirs:.2f}")
        return [self.graph, self.column, str(self.splits), *errors, self.rival, change, chance]


def comparisons(folder: Path) -> list[Comparison]:
    """Those of all ``table1*.csv`` of a folder."""
    found = []
    for path in sorted(folder.glob("table1*.csv")):
        name = path.stem.removeprefix("table1").strip("_") or "fashion"
        if not name.endswith(("quick", "trial")):
            found += _compare(name.replace("_k", ", k = "), read(path))
    return found


def _compare(graph: str, results: Results) -> list[Comparison]:
    """One per column."""
    found = []
    for column in results.errors:
        rival = results.best(column, results.methods(MODEL, PEER, TUNED))
        if rival is not None:
            ours, theirs = results.pairs(column, rival)
            chance = float(ttest_rel(ours, theirs).pvalue) if len(ours) > 1 else None
            found.append(Comparison(graph, column, len(ours), float(ours.mean()), float(theirs.mean()), rival, chance))
    return found


def read(path: Path) -> Results:
    """A table of ``table1``."""
    with path.open(newline="", encoding="utf-8") as file:
        return Results([dict(row) for row in csv.DictReader(file)])


def verdict_table(folder: Path) -> str:
    """The table of all of them."""
    return "\n".join(markdown(HEAD, [one.cells() for one in comparisons(folder)]))


def write_verdict() -> str:
    """Writes ``verdict.md`` and its part of the page."""
    text = verdict_table(machine.RESULTS)
    machine.write_text(text + "\n", machine.RESULTS / "verdict.md")
    fill(PAGE, "verdict", text)
    return text
