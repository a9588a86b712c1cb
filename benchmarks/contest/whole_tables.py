"""The large tables of the documentation, every method of a contest, made of the CSV files of ``benchmarks/results``."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from statistics import mean, median

from contest.images import standing as image_standing
from shared import certainty_report, family_report, features_report, planetoid_report
from shared.families import DRAWS
from shared.features_job import OURS
from shared.standing import Standing
from shared.table import markdown, read_rows


def energies(stem: str, folder: Path) -> str | None:
    """A line per energy and form of CREPE."""
    rows = read_rows(folder / f"{stem}.csv")
    return "\n".join(family_report.overall_table(family_report.Results(rows))) if rows else None


def features(folder: Path) -> str | None:
    """From features to labels, the energies among them: over all cells and by draw."""
    rows = read_rows(folder / "contest_features.csv")
    if not rows:
        return None
    standing = Standing.of_rows([*rows, *features_report.energy_rows(rows, folder / "contest_energies.csv")], OURS)
    draws = [draw for draw in DRAWS if any(draw == own for _, own in standing.errors)]
    return "\n".join([*standing.table(), "", *standing.draw_table(draws)])


def images(folder: Path) -> str | None:
    """Pretrained images: over all columns and by labels per class."""
    rows = read_rows(folder / "contest_images.csv")
    if not rows:
        return None
    draws = {row["labels"]: f"{row['labels']} per class" for row in rows}
    standing = image_standing(rows)
    return "\n".join([*standing.table(), "", *standing.draw_table([draws[labels] for labels in sorted(draws)])])


def graphs(folder: Path) -> str | None:
    """Means and comparisons on citation graphs."""
    rows = read_rows(folder / "contest_graphs.csv")
    if not rows:
        return None
    results = planetoid_report.Results(rows)
    return "\n".join(line for draw in results.draws for line in planetoid_report.draw_tables(results, draw)).strip()


def certainty(folder: Path) -> str | None:
    """Every measure, over all cells and by draw."""
    rows = read_rows(folder / "contest_certainty.csv")
    return "\n".join(certainty_report.tables(certainty_report.Results(rows))) if rows else None


def labelling(folder: Path) -> str | None:
    """Errors after so many keys, data set by data set, and how many sessions there were; the lowest in bold."""
    rows = read_rows(folder / "labelling.csv")
    if not rows:
        return None
    stops = sorted({row["keys"] for row in rows})
    body = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        found = {
            method: [[row["error"] for row in own if (row["method"], row["keys"]) == (method, stop)] for stop in stops]
            for method in dict.fromkeys(row["method"] for row in own)
        }
        means = {method: [mean(errors) if errors else inf for errors in parts] for method, parts in found.items()}
        lowest = [min(column) for column in zip(*means.values(), strict=True)]
        for method, values in means.items():
            cells = [
                "–" if value == inf else f"**{value:.2f}**" if value == best else f"{value:.2f}"
                for value, best in zip(values, lowest, strict=True)
            ]
            body.append([f"{data}: {method}", *cells, str(max(len(errors) for errors in found[method]))])
    return "\n".join(markdown(["error in %", *(f"{stop} keys" for stop in stops), "sessions"], body))


def times(folder: Path) -> str | None:
    """A line for everything that was timed: medians and ranges over the rounds, and what the answer was worth."""
    rows = read_rows(folder / "end_to_end.csv")
    body = []
    for part, what in dict.fromkeys((row["part"], row["what"]) for row in rows):
        own = [row for row in rows if (row["part"], row["what"]) == (part, what)]
        seconds = [[row[column] for row in own] for column in ("processor", "seconds")]
        told = [f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})" for values in seconds]
        body.append([f"{part}: {what}", *told, str(len(own)), own[0]["note"] or "–"])
    header = ["what", "processor seconds", "seconds on the clock", "rounds", "the answer"]
    return "\n".join(markdown(header, body)) if body else None


#: The parts by name.
MAKERS: dict[str, Callable[[Path], str | None]] = {
    "all_energies": lambda folder: energies("contest_energies", folder),
    "all_energies_unseen": lambda folder: energies("contest_energies_unseen", folder),
    "all_features": features,
    "all_images": images,
    "all_graphs": graphs,
    "all_labelling": labelling,
    "all_certainty": certainty,
    "all_times": times,
}
