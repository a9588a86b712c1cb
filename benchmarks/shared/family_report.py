"""What ``benchmarks/contest energies`` writes: every method beside the best other energy of a cell, and a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shared.families import DRAWS, UNSEEN
from shared.family_job import CREPE, METHODS, OTHERS
from shared.picture import draw_places
from shared.standing import Place, Standing, geometric_mean, p_text
from shared.table import markdown, opening

Row = dict[str, Any]

#: What the tables are made of, and with it all that the CSV files hold.
COLUMNS = (
    "family",
    "draw",
    "seed",
    "method",
    "unlabelled",
    "error",
    "class_error",
    "ece",
    "expected",
    "expected_low",
    "expected_high",
)

#: Ratios above the first are in bold; how many are above either is counted.
WORSE, MUCH_WORSE = 1.05, 1.20

#: How many of the worst cells are listed.
WORST = 10

#: The draw whose soft labels have the least to go by.
FEWEST = "1 per class"


@dataclass(frozen=True)
class Best:
    """The best other energy of a cell: its name and its error in per cent."""

    name: str
    error: float


class Results:
    r"""Errors by cell and method, averaged over seeds.

    The ratio of a method in a cell is

    .. math::
        \frac{e + h}{e^\star + h}, \quad h = \frac{50}{n},

    where :math:`e` is its error in per cent, :math:`e^\star` the lowest of the other energies, and :math:`h` half a
    node of the :math:`n` unlabelled ones: no error at all would else be infinitely better than a single one.

    Args:
        rows (list): The rows of the cells, one per family, draw, seed and method.
    """

    #: The methods in the order of the tables, and the columns that are averaged over seeds.
    order: Sequence[str] = tuple(METHODS)
    columns: Sequence[str] = ("error", "class_error", "ece")

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        found: dict[Place, dict[str, list[Row]]] = {}
        for row in self.rows:
            found.setdefault((row["family"], row["draw"]), {}).setdefault(row["method"], []).append(row)
        self.cells = found
        self.methods = [name for name in self.order if any(name in cell for cell in found.values())]
        self.families = list(dict.fromkeys(family for family, _ in found))
        self.draws = [draw for draw in DRAWS if any(draw == own for _, own in found)]
        self._half = {
            place: float(np.mean([50 / row["unlabelled"] for row in cell[CREPE]])) for place, cell in found.items()
        }
        self._mean = {
            (place, method, value): float(np.mean([row[value] for row in own]))
            for place, cell in found.items()
            for method, own in cell.items()
            for value in self.columns
        }
        errors = {place: {name: self.mean(place, name) for name in cell} for place, cell in found.items()}
        #: Ranks and p; forms of CREPE are ranked in its place.
        self.standing = Standing(errors, self._half, CREPE, field=(CREPE, *OTHERS))

    def mean(self, place: Place, method: str, value: str = "error") -> float:
        """The mean of a column over the seeds of a cell."""
        return self._mean[place, method, value]

    def half_node(self, place: Place) -> float:
        """:math:`h`, the mean over seeds."""
        return self._half[place]

    def best(self, place: Place, value: str = "error", without: str = "") -> Best:
        """The other energy with the lowest error, perhaps without one of them."""
        errors = {name: self.mean(place, name, value) for name in OTHERS if name in self.methods and name != without}
        if not errors:
            return Best("", math.inf)
        name = min(errors, key=lambda name: errors[name])
        return Best(name, errors[name])

    def ratio(self, place: Place, method: str = CREPE, value: str = "error") -> float:
        """The error of a method over that of the best other energy, with half a node on both sides."""
        half = self.half_node(place)
        return (self.mean(place, method, value) + half) / (self.best(place, value).error + half)

    def geometric_mean(self, method: str, value: str = "error", without: str = "") -> float:
        """The geometric mean of the ratios over all cells, perhaps without those of one family."""
        return geometric_mean([self.ratio(place, method, value) for place in self.cells if place[0] != without])

    def won(self, method: str) -> tuple[float, float]:
        """The shares of the cells where a method's error is below that of every other energy, and where it equals the
        lowest.
        """
        gaps = [self.mean(place, method) - self.best(place, without=method).error for place in self.cells]
        return float(np.mean([gap < -1e-9 for gap in gaps])), float(np.mean([abs(gap) <= 1e-9 for gap in gaps]))

    def above(self, method: str, limit: float) -> int:
        """The number of cells whose ratio is above a limit."""
        return sum(self.ratio(place, method) > limit for place in self.cells)

    def calibration(self, method: str, draw: str = "") -> float:
        """The mean calibration error over cells, perhaps those of one draw; NaN where there is none."""
        errors = [self.mean(place, method, "ece") for place in self.cells if draw in ("", place[1])]
        return float(np.mean(errors)) if errors else math.nan

    def covered(self, method: str) -> float:
        """The share of cells and seeds whose expected interval holds the true error; NaN where none is expected."""
        own = [row for row in self.rows if row["method"] == method and row["expected_low"] != ""]
        inside = [row["expected_low"] <= row["error"] <= row["expected_high"] for row in own]
        return float(np.mean(inside)) if inside else math.nan

    def worst(self, method: str = CREPE) -> list[Place]:
        """All cells, the largest ratio first."""
        return sorted(self.cells, key=lambda place: -self.ratio(place, method))


def _number(value: float, form: str = ".2f") -> str:
    return "–" if math.isnan(value) else format(value, form)


def overall_table(results: Results) -> list[str]:
    """One line per method."""
    body = []
    for method in results.methods:
        won, tied = results.won(method)
        worst = results.worst(method)[0]
        body.append(
            [
                method,
                f"{results.geometric_mean(method):.3f}",
                f"{results.standing.rank(method):.1f}",
                p_text(results.standing.chance(method)),
                f"{results.ratio(worst, method):.2f} ({', '.join(worst)})",
                f"{won:.0%} ({tied:.0%})",
                str(results.above(method, WORSE)),
                str(results.above(method, MUCH_WORSE)),
                f"{results.geometric_mean(method, 'class_error'):.3f}",
                _number(results.calibration(method)),
                _number(results.calibration(method, FEWEST)),
                _number(results.covered(method), ".0%"),
            ]
        )
    header = [
        "method",
        "ratio to the best other, geometric mean",
        "mean rank",
        f"p against {CREPE}",
        "worst cell",
        "cells won (tied)",
        "cells > 5 % above",
        "> 20 % above",
        "ratio of the mean error over classes",
        "ECE in %",
        f"ECE with {FEWEST}",
        "expected interval holds the error",
    ]
    return markdown(header, body)


def left_out_table(results: Results) -> list[str]:
    """How much the geometric mean hangs on a single family."""
    body = []
    for method in results.methods:
        means = {family: results.geometric_mean(method, without=family) for family in results.families}
        ends = [pick(means, key=lambda family: means[family]) for pick in (min, max)]
        body.append([method, *(f"{means[family]:.3f} (without {family})" for family in ends)])
    return markdown(["geometric mean with one family left out", "lowest", "highest"], body)


def ratio_table(results: Results) -> list[str]:
    """CREPE's ratio in every cell."""

    def text(place: Place) -> str:
        ratio = results.ratio(place)
        return f"**{ratio:.2f}**" if ratio > WORSE else f"{ratio:.2f}"

    return _by_place(results, "CREPE's error over that of the best other", text)


def error_table(results: Results) -> list[str]:
    """The errors themselves."""

    def text(place: Place) -> str:
        best = results.best(place)
        return f"{results.mean(place, CREPE):.1f} / {best.error:.1f} ({best.name})"

    return _by_place(results, "error in %: CREPE / best other", text)


def _by_place(results: Results, title: str, text: Any) -> list[str]:
    body = [
        [family, *(text((family, draw)) if (family, draw) in results.cells else "–" for draw in results.draws)]
        for family in results.families
    ]
    return markdown([title, *results.draws], body)


def worst_table(results: Results) -> list[str]:
    """The cells where CREPE is furthest behind."""
    body = []
    for place in results.worst()[:WORST]:
        best = results.best(place)
        errors = [f"{results.mean(place, CREPE):.2f}", f"{best.error:.2f} ({best.name})"]
        body.append([*place, f"{results.ratio(place):.2f}", *errors, str(len(results.cells[place][CREPE]))])
    return markdown(["family", "labels", "ratio", "CREPE's error in %", "best other", "seeds"], body)


def summary(results: Results, failed: int = 0) -> str:
    """The whole report."""
    seeds = sorted({row["seed"] for row in results.rows})
    counts = [len(cell[CREPE]) for cell in results.cells.values()]
    others = [name for name in OTHERS if name in results.methods]
    known = [family for family in results.families if family not in UNSEEN]
    seen = (
        f"{len(known)} of the families were looked at while the defaults were developed."
        if known
        else "None of the families took part in the development of the defaults."
    )
    lines = [
        *opening(failed),
        f"{len(results.families)} families, {len(results.cells)} cells (family × draw of labels), seeds {seeds[0]} to "
        f"{seeds[-1]}, {min(counts)} to {max(counts)} in a cell. {seen}",
        "",
        "Error in % of the unlabelled nodes; a node that no label reaches counts as an error. Errors are averaged over "
        f"seeds, then divided by those of the best other energy of the cell, the lowest of {', '.join(others)}, each "
        "at its default. It is chosen on the test labels, which flatters the others. Half a node is added on both "
        "sides (50 / number of unlabelled nodes), so that no error is zero. ECE: 15 bins of equal width of the largest "
        "probability, the mean over cells. A cell is won where the error is below that of every (other) energy of that "
        "list, tied where it equals the lowest. Ranks are among CREPE and the others, a form of CREPE in its place; p: "
        "Wilcoxon's over cells, of the logarithm of the error over CREPE's, two-sided and not corrected. The last "
        "column: cells and seeds whose expected interval holds the true error.",
        "",
        *overall_table(results),
        "",
    ]
    if len(results.families) > 1:
        lines += [*left_out_table(results), ""]
    lines += [
        f"CREPE in every cell, in bold where it is more than {100 * WORSE - 100:.0f} % above the best other; a dash "
        "where the draw leaves too little of the data:",
        "",
        *ratio_table(results),
        "",
        *error_table(results),
        "",
        "The worst cells:",
        "",
        *worst_table(results),
    ]
    return "\n".join(lines) + "\n"


def draw_map(results: Results, path: Path) -> None:
    """Family × draw: the ratio on a logarithmic scale, white where CREPE and the best other are equal."""
    colours = "blue: fewer errors, red: more, grey: no such draw"
    title = f"CREPE's error over that of the best other energy\n{colours}"
    draw_places({place: results.ratio(place) for place in results.cells}, title, path, DRAWS)
