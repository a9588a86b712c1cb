"""What ``benchmarks/contest certainty`` writes: how sure and how right every method is, and where its errors are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shared.certainty_job import CREPE, CURVE, DRAWS, HEAD, METHODS
from shared.picture import write_picture
from shared.standing import p_text, paired_p
from shared.table import markdown, opening

from tg_crepe.viz import PALETTE

Row = dict[str, Any]

#: What the methods are paired with.
OURS = CREPE


class Results:
    """Means over seeds, by family, draw and method, of draws that all methods have.

    Args:
        rows (list): The rows of the cells.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
        self.seeds = sorted({row["seed"] for row in rows})
        drawn: dict[tuple[str, str, int], dict[str, Row]] = {}
        for row in rows:
            drawn.setdefault((row["family"], row["draw"], row["seed"]), {})[row["method"]] = row
        whole = {key: own for key, own in drawn.items() if len(own) == len(self.methods)}
        self.places = list(dict.fromkeys(key[:2] for key in whole))
        self.rows = {place: [own for key, own in whole.items() if key[:2] == place] for place in self.places}
        self.draws = [draw for draw in DRAWS if any(draw == own for _, own in self.places)]

    def chosen(self, draw: str = "", family: str = "") -> list[tuple[str, str]]:
        """The cells of a draw or a family, or all."""
        return [place for place in self.places if draw in ("", place[1]) and family in ("", place[0])]

    def value(self, place: tuple[str, str], method: str, column: str) -> float:
        """The mean of a column over the seeds of a cell that have it; NaN where none has."""
        found = [own[method][column] for own in self.rows[place] if own[method][column] != ""]
        return float(np.mean(found)) if found else math.nan

    def mean(self, method: str, column: str, draw: str = "", family: str = "") -> float:
        """The mean of a column over cells."""
        found = [self.value(place, method, column) for place in self.chosen(draw, family)]
        known = [value for value in found if not math.isnan(value)]
        return float(np.mean(known)) if known else math.nan

    def held(self, method: str, draw: str = "", family: str = "") -> float:
        """The share, in per cent, of the draws whose interval holds the true error; NaN where there is no interval."""
        own = [drawn[method] for place in self.chosen(draw, family) for drawn in self.rows[place]]
        inside = [row["low"] <= row["error"] <= row["high"] for row in own if row["low"] != ""]
        return 100 * float(np.mean(inside)) if inside else math.nan

    def chance(self, method: str, column: str, draw: str = "") -> float:
        """Wilcoxon's p over cells of a column's difference from ours."""
        if method == OURS:
            return math.nan
        pairs = [(self.value(p, method, column), self.value(p, OURS, column)) for p in self.chosen(draw)]
        return paired_p([one - other for one, other in pairs if not math.isnan(one + other)])

    def worst(self, method: str, column: str, largest: bool) -> tuple[str, float]:
        """The family whose mean of a column is the worst; without a name where there is none."""
        families = dict.fromkeys(family for family, _ in self.places)
        means = {family: self.mean(method, column, family=family) for family in families}
        known = {family: value for family, value in means.items() if not math.isnan(value)}
        if not known:
            return "", math.nan
        name = (max if largest else min)(known, key=lambda family: known[family])
        return name, known[name]

    def least_held(self, method: str) -> tuple[str, float]:
        """The family whose intervals hold the error most rarely; without a name where there are none."""
        held = {family: self.held(method, family=family) for family, _ in self.places}
        name = min(held, key=lambda family: held[family])
        return (name, held[name]) if not math.isnan(held[name]) else ("", math.nan)


def number(value: float, form: str = ".1f") -> str:
    """A number as tables show it."""
    return "–" if math.isnan(value) else format(value, form)


def named(family: str, value: float, form: str) -> str:
    """A family and its number."""
    return f"{family} {value:{form}}" if family else "–"


def overall_table(results: Results) -> list[str]:
    """A line per method."""
    header = [
        "method",
        "error in %",
        "calibration error (ECE) in %",
        "p",
        "worst family",
        "% of the errors in the least certain fifth (possible)",
        "p",
        "worst family",
        "error left when that fifth is put right, in %",
        "p",
        "interval holds the error in %",
        "worst family",
    ]
    body = []
    for method in results.methods:
        found = f"{number(results.mean(method, 'found'), '.0f')} ({number(results.mean(method, 'most'), '.0f')})"
        body.append(
            [
                method,
                number(results.mean(method, "error")),
                number(results.mean(method, "ece")),
                p_text(results.chance(method, "ece")),
                named(*results.worst(method, "ece", largest=True), ".1f"),
                found,
                p_text(results.chance(method, "found")),
                named(*results.worst(method, "found", largest=False), ".0f"),
                number(results.mean(method, "left")),
                p_text(results.chance(method, "left")),
                number(results.held(method), ".0f"),
                named(*results.least_held(method), ".0f"),
            ]
        )
    return markdown(header, body)


def draw_table(results: Results, column: str, title: str, form: str = ".1f") -> list[str]:
    """A column by draw, with p against ours."""

    def text(method: str, draw: str) -> str:
        if column == "held":
            return number(results.held(method, draw), ".0f")
        p = math.nan if column == "most" else results.chance(method, column, draw)
        return number(results.mean(method, column, draw), form) + ("" if math.isnan(p) else f" (p {p_text(p)})")

    body = [[method, *(text(method, draw) for draw in results.draws)] for method in results.methods]
    return markdown([title, *results.draws], body)


def family_table(results: Results) -> list[str]:
    """Calibration error and errors found, family by family."""
    body = []
    for family in dict.fromkeys(family for family, _ in results.places):
        pairs = [
            " / ".join(number(results.mean(name, column, family=family), ".0f") for column in ("ece", "found"))
            for name in results.methods
        ]
        body.append([family, *pairs])
    return markdown(["ECE / errors found, in %", *results.methods], body)


def tables(results: Results) -> list[str]:
    """All tables, the overall one first."""
    return [
        *overall_table(results),
        "",
        *draw_table(results, "ece", "ECE in %"),
        "",
        *draw_table(results, "found", "% of the errors in the least certain fifth", ".0f"),
        "",
        *draw_table(results, "most", "possible", ".0f"),
        "",
        *draw_table(results, "left", "error left when that fifth is put right, in %"),
        "",
        *draw_table(results, "held", "interval holds the error, in %"),
        "",
        *family_table(results),
    ]


def summary(rows: Sequence[Row], failed: int = 0) -> str:
    """The whole report."""
    results = Results(rows)
    families = {family for family, _ in results.places}
    lines = [
        *opening(failed),
        f"{len(families)} families, {len(results.places)} cells (family × draw of labels), seeds {results.seeds[0]} to "
        f"{results.seeds[-1]}; means over seeds, then over cells. {HEAD} is `CrepeClassifier`; energies run on the "
        "graph of the family, the others on features scaled as is best for each. Judged are the rows without a label.",
        "",
        "ECE: 15 bins of equal width of the largest probability. Certainty is 1 − entropy / log(classes) of every "
        "method's probabilities; chance finds 20 % of the errors in the least certain fifth of the rows, in brackets "
        "stands what is possible, less than 100 % where there are more errors than rows in that fifth. The interval is "
        f"that of the expected error, 90 % are wanted. p: Wilcoxon's over cells of the difference from {OURS}, "
        "two-sided and not corrected.",
        "",
        *tables(results),
    ]
    return "\n".join(lines) + "\n"


def draw_reliability(rows: Sequence[Row], path: Path) -> None:
    """Confidence against the share that is right, every draw of labels counting as much as another; the area of a dot
    is the share of the rows.
    """
    from matplotlib.figure import Figure

    results = Results(rows)
    figure = Figure(figsize=(3.2 * len(results.draws) + 1, 3.8), layout="constrained")
    panels = figure.subplots(1, len(results.draws), squeeze=False)[0]
    for axes, draw in zip(panels, results.draws, strict=True):
        axes.plot([0, 1], [0, 1], color="0.6", lw=1, ls="--")
        for index, method in enumerate(results.methods):
            share, sure, right = (
                np.array([results.mean(method, f"{name}_{i + 1}", draw) for i in range(CURVE)])
                for name in ("rows", "sure", "right")
            )
            some = share > 0.01  # a bin of a few rows says nothing
            colour, width = PALETTE[index % len(PALETTE)], 2.2 if method in (CREPE, HEAD) else 1.1
            x, y = sure[some] / share[some], right[some] / share[some]
            axes.plot(x, y, color=colour, lw=width, label=method)
            axes.scatter(x, y, s=150 * share[some], color=colour, alpha=0.6, linewidths=0)
        axes.set(title=draw, xlabel="confidence", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share that is right")
    panels[0].legend(fontsize=7, frameon=False)
    write_picture(figure, path, dpi=130)
