"""What ``benchmarks/together.py families`` writes: our default from features to labels beside what people use."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shared import machine
from shared.families import DRAWS
from shared.features_job import FAMILIES, OURS, SECONDS
from shared.picture import draw_ratios
from shared.table import markdown

Row = dict[str, Any]

#: A family and a draw.
Place = tuple[str, str]

#: What counts as above the best.
ABOVE = 1.03

#: Draws of which nothing is demanded: one label per class.
FEWEST = "1 per class"


def energy_rows(rows: Sequence[Row], path: Path) -> list[Row]:
    """The rows of all energies on the families, draws and seeds of ``rows``, from the table of ``families.py``."""
    wanted = {(row["family"], row["draw"], row["seed"]) for row in rows}
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {**row, "seed": int(row["seed"]), "error": float(row["error"]), "unlabelled": int(row["unlabelled"])}
            for row in csv.DictReader(file)
            if (row["family"], row["draw"], int(row["seed"])) in wanted and row["method"] not in ("no flow", "paper")
        ]


class Results:
    r"""Mean errors over seeds, by family, draw and method.

    A ratio is :math:`(e + h) / (e^\star + h)` as in ``families.py``: half a node :math:`h` is added on both sides.

    Args:
        rows (list): One per family, draw, seed and method.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        found: dict[Place, dict[str, list[Row]]] = {}
        for row in rows:
            found.setdefault((row["family"], row["draw"]), {}).setdefault(row["method"], []).append(row)
        self.cells = {place: cell for place, cell in found.items() if OURS in cell}
        self.families = [name for name in FAMILIES if any(name == family for family, _ in self.cells)]
        self.draws = [draw for draw in DRAWS if any(draw == own for _, own in self.cells)]
        names = dict.fromkeys(name for cell in self.cells.values() for name in cell)
        self.methods = [*(name for name in SECONDS if name in names), *(name for name in names if name not in SECONDS)]

    def error(self, place: Place, method: str) -> float:
        """The mean error of a cell in per cent; NaN where the method was not run."""
        own = self.cells[place].get(method)
        return float(np.mean([row["error"] for row in own])) if own else math.nan

    def best(self, place: Place, without: str = OURS) -> tuple[float, str]:
        """The lowest error of all other methods, and whose it is."""
        others = [(self.error(place, name), name) for name in self.cells[place] if name != without]
        return min(others, default=(math.nan, ""))

    def ratio(self, place: Place, method: str = OURS) -> float:
        """The error of a method over that of the best of all methods but ours."""
        half = float(np.mean([50 / row["unlabelled"] for row in self.cells[place][OURS]]))
        return (self.error(place, method) + half) / (self.best(place)[0] + half)

    def ratios(self, method: str, draws: Sequence[str]) -> dict[Place, float]:
        """The ratios of a method in the cells of some draws."""
        own = {place: self.ratio(place, method) for place in self.cells if place[1] in draws}
        return {place: ratio for place, ratio in own.items() if not math.isnan(ratio)}

    def lowest(self, method: str) -> float:
        """The share of the cells in which no other method has a lower error."""
        found = [place for place in self.cells if not math.isnan(self.error(place, method))]
        return float(np.mean([self.error(place, method) <= self.best(place, method)[0] for place in found]))


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def method_table(results: Results) -> list[str]:
    """One line per method."""
    body = []
    for method in results.methods:
        ratios = results.ratios(method, results.draws)
        if not ratios:
            continue
        more = results.ratios(method, [draw for draw in results.draws if draw != FEWEST])
        worst = max(ratios, key=lambda place: ratios[place])
        body.append(
            [
                method,
                f"{geometric_mean(ratios.values()):.3f}",
                f"{ratios[worst]:.2f} ({', '.join(worst)})",
                f"{results.lowest(method):.0%}",
                f"{sum(ratio > ABOVE for ratio in more.values())} of {len(more)}",
            ]
        )
    header = ["method", "error over that of the best but ours", "worst cell", "cells with the lowest error"]
    return markdown([*header, f"> 3 % above, without {FEWEST}"], body)


def draw_table(results: Results) -> list[str]:
    """The geometric mean by draw."""
    body = [
        [method, *(f"{geometric_mean(results.ratios(method, [draw]).values() or [math.nan]):.2f}" for draw in draws)]
        for draws in [results.draws]
        for method in results.methods
    ]
    return markdown(["by draw", *results.draws], body)


def error_table(results: Results) -> list[str]:
    """The errors themselves."""

    def text(place: Place) -> str:
        if place not in results.cells:
            return "–"
        best, name = results.best(place)
        return f"{results.error(place, OURS):.1f} / {best:.1f} ({name})"

    body = [[family, *(text((family, draw)) for draw in results.draws)] for family in results.families]
    return markdown(["error in %: ours / best other", *results.draws], body)


def summary(results: Results, seeds: Sequence[int], failed: int = 0) -> str:
    """The whole report."""
    lines = [machine.describe(), ""]
    if failed:
        lines += [f"**{failed} cells failed and are missing.**", ""]
    lines += [
        f"{len(results.families)} families, {len(results.cells)} cells (family × draw of labels), seeds {min(seeds)} "
        f"to {max(seeds)}. From features to labels at the defaults; the energies, CREPE without a head among them, are "
        "those of `families.csv`, on the graphs of that table. The best of all others is chosen in each cell on the "
        "test labels.",
        "",
        *method_table(results),
        "",
        *draw_table(results),
        "",
        *error_table(results),
    ]
    return "\n".join(lines) + "\n"


def draw_map(results: Results, path: Path) -> None:
    """Family × draw: our error over the lowest of all others."""
    ratio = np.full((len(results.families), len(results.draws)), np.nan)
    for place in results.cells:
        ratio[results.families.index(place[0]), results.draws.index(place[1])] = results.ratio(place)
    title = "Features to labels: our error over that of the best other method\nblue: fewer errors, red: more"
    draw_ratios(ratio, results.families, results.draws, title, path)
