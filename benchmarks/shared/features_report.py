"""What ``benchmarks/contest features`` writes: our default from features to labels beside what people use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.families import DRAWS
from shared.features_job import OURS
from shared.picture import draw_places
from shared.standing import Standing
from shared.table import markdown, opening, read_rows

Row = dict[str, Any]

#: The energies that are set beside: CREPE without a head, and the others at their defaults.
_OTHER_FORMS = ("no flow", "paper")


def energy_rows(rows: Sequence[Row], path: Path) -> list[Row]:
    """The rows of all energies on the families, draws and seeds of ``rows``, from the table of ``contest energies``."""
    wanted = {(row["family"], row["draw"], row["seed"]) for row in rows}
    return [
        row
        for row in read_rows(path)
        if (row["family"], row["draw"], row["seed"]) in wanted and row["method"] not in _OTHER_FORMS
    ]


def best_other(standing: Standing, place: tuple[str, str]) -> tuple[float, str]:
    """The lowest error of all methods but ours, and whose it is."""
    return min((error, name) for name, error in standing.errors[place].items() if name != standing.ours)


def error_table(standing: Standing, draws: Sequence[str]) -> list[str]:
    """The errors themselves."""

    def text(place: tuple[str, str]) -> str:
        if place not in standing.errors:
            return "–"
        best, name = best_other(standing, place)
        return f"{standing.errors[place][standing.ours]:.1f} / {best:.1f} ({name})"

    families = dict.fromkeys(family for family, _ in standing.errors)
    body = [[family, *(text((family, draw)) for draw in draws)] for family in families]
    return markdown(["error in %: ours / best other", *draws], body)


def summary(rows: Sequence[Row], failed: int = 0) -> str:
    """The whole report."""
    standing = Standing.of_rows(rows, OURS)
    seeds = sorted({row["seed"] for row in rows})
    draws = [draw for draw in DRAWS if any(draw == own for _, own in standing.errors)]
    families = {family for family, _ in standing.errors}
    lines = [
        *opening(failed),
        f"{len(families)} families, {len(standing.errors)} cells (family × draw of labels), seeds {seeds[0]} to "
        f"{seeds[-1]}. From features to labels at the defaults; features are scaled as is best for each model "
        "(`benchmarks/shared/estimators.py`). The energies, CREPE without a head among them, are those of "
        "`contest_energies.csv`, on the graphs of that table. Errors are averaged over the seeds that all methods of a "
        "cell have, then divided by the lowest of the cell, half a row added on both sides; p: Wilcoxon's over cells, "
        f"of the logarithm of the error over that of {OURS}, two-sided and not corrected.",
        "",
        *standing.table(),
        "",
        *standing.draw_table(draws),
        "",
        *error_table(standing, draws),
    ]
    return "\n".join(lines) + "\n"


def draw_map(rows: Sequence[Row], path: Path) -> None:
    """Family × draw: our error over the lowest of all others."""
    standing = Standing.of_rows(rows, OURS)
    ratios = {}
    for place, own in standing.errors.items():
        half = standing.half[place]
        if len(own) > 1:
            ratios[place] = (own[OURS] + half) / (best_other(standing, place)[0] + half)
    title = "Features to labels: our error over that of the best other method\nblue: fewer errors, red: more"
    draw_places(ratios, title, path, DRAWS)
