"""How methods stand beside each other over many cells: the measures that every contest is told by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon
from shared.table import markdown

#: A cell: what the data are and how labels came about.
Place = tuple[str, str]


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean; NaN where there is nothing."""
    own = list(ratios)
    return float(np.exp(np.mean(np.log(own)))) if own else math.nan


def paired_p(differences: Sequence[float]) -> float:
    """Wilcoxon's p for differences about 0, two-sided; 1 where there is no difference, NaN where there is nothing."""
    if not len(differences):
        return math.nan
    return float(wilcoxon(differences).pvalue) if np.any(differences) else 1.0


def p_text(p: float) -> str:
    """p as tables show it."""
    return "–" if math.isnan(p) else "< 1e-9" if p < 1e-9 else f"{p:.1g}"


class Standing:
    r"""Errors by cell and method, and what they say over all cells.

    The ratio of a method in a cell, with half a row :math:`h = 50/n` of the :math:`n` judged ones on both sides, since
    no error at all would else be infinitely better than a single one:

    .. math::
        r = \frac{e + h}{\min_m e_m + h}

    Args:
        errors (dict): The mean error in per cent of every method, by cell.
        half (dict): :math:`h`, by cell.
        ours (str): The method that the others are paired with.
        field (list, optional): Those that are ranked; another one is ranked in the place of ours.
            (default: :obj:`None`, all)
    """

    def __init__(
        self,
        errors: Mapping[Place, Mapping[str, float]],
        half: Mapping[Place, float],
        ours: str,
        field: Sequence[str] | None = None,
    ) -> None:
        self.errors = {place: dict(own) for place, own in errors.items() if ours in own}
        self.half, self.ours = half, ours
        self.methods = list(dict.fromkeys(name for own in self.errors.values() for name in own))
        self.field = [name for name in self.methods if field is None or name in field]

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]], ours: str, data: str = "family") -> Standing:
        """That of rows of single seeds, with ``method``, ``seed``, ``error``, ``unlabelled``, ``draw`` and the column
        that names the data. Only seeds that all methods of a cell have count there.
        """
        found: dict[Place, dict[str, dict[int, Mapping[str, Any]]]] = {}
        for row in rows:
            place = (str(row[data]), str(row["draw"]))
            found.setdefault(place, {}).setdefault(row["method"], {})[row["seed"]] = row
        errors, half = {}, {}
        for place, cell in found.items():
            seeds = set.intersection(*(set(own) for own in cell.values()))
            if seeds and ours in cell:
                errors[place] = {m: float(np.mean([own[seed]["error"] for seed in seeds])) for m, own in cell.items()}
                half[place] = float(np.mean([50 / cell[ours][seed]["unlabelled"] for seed in seeds]))
        return cls(errors, half, ours)

    def places(self, method: str, draw: str = "") -> list[Place]:
        """The cells that a method has, perhaps those of one draw."""
        return [place for place, own in self.errors.items() if method in own and draw in ("", place[1])]

    def ratio(self, place: Place, method: str) -> float:
        """The error of a method over the lowest of the cell."""
        own = self.errors[place]
        return (own[method] + self.half[place]) / (min(own.values()) + self.half[place])

    def mean_ratio(self, method: str, draw: str = "") -> float:
        """The geometric mean of the ratios."""
        return geometric_mean([self.ratio(place, method) for place in self.places(method, draw)])

    def rank(self, method: str) -> float:
        """The mean rank among all that are ranked, 1 for the lowest error, over cells that have them all; equal errors
        share their ranks.
        """
        field = self.field if method in self.field else [method, *(name for name in self.field if name != self.ours)]
        ranks = [
            rankdata([round(own[name], 9) for name in field])[field.index(method)]
            for own in self.errors.values()
            if all(name in own for name in field)
        ]
        return float(np.mean(ranks)) if ranks else math.nan

    def worst(self, method: str) -> Place:
        """The cell of the largest ratio."""
        return max(self.places(method), key=lambda place: self.ratio(place, method))

    def lowest(self, method: str) -> int:
        """The number of cells in which no other has a lower error."""
        return sum(self.ratio(place, method) <= 1 + 1e-9 for place in self.places(method))

    def chance(self, method: str, draw: str = "") -> float:
        """p of the logarithm of a method's error over ours, half a row on both sides, over cells."""
        if method == self.ours:
            return math.nan
        both = [(self.errors[place], self.half[place]) for place in self.places(method, draw)]
        return paired_p([math.log((own[method] + half) / (own[self.ours] + half)) for own, half in both])

    def worst_text(self, method: str) -> str:
        """The largest ratio and where it is."""
        place = self.worst(method)
        return f"{self.ratio(place, method):.2f} ({', '.join(place)})"

    def table(self) -> list[str]:
        """A line per method."""
        header = ["method", "error over the lowest of the cell, geometric mean", "mean rank", "worst cell"]
        body = [
            [
                method,
                f"{self.mean_ratio(method):.3f}",
                f"{self.rank(method):.1f}",
                self.worst_text(method),
                f"{self.lowest(method)} of {len(self.places(method))}",
                p_text(self.chance(method)),
            ]
            for method in self.methods
        ]
        return markdown([*header, "cells with the lowest error", f"p against {self.ours}"], body)

    def draw_table(self, draws: Sequence[str]) -> list[str]:
        """The geometric mean and p by draw."""

        def text(method: str, draw: str) -> str:
            if not self.places(method, draw):
                return "–"
            p = self.chance(method, draw)
            return f"{self.mean_ratio(method, draw):.2f}" + ("" if math.isnan(p) else f" (p {p_text(p)})")

        body = [[method, *(text(method, draw) for draw in draws)] for method in self.methods]
        return markdown(["by draw", *draws], body)
