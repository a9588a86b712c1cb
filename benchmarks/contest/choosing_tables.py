"""The measured parts of the page on choosing: labels per class, rows and seconds, and what certainty is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from contest.tables import link
from shared import certainty_report
from shared.certainty_job import HEAD
from shared.few_labels import Curves, curve_table, default_rows
from shared.table import markdown, read_rows


def few_labels(folder: Path) -> str | None:
    """The mean error by kind of data and labels per class."""
    if not (rows := default_rows(folder)):
        return None
    curves = Curves(rows)
    sources = (
        (False, "Features to labels", "features"),
        (True, "Citation graphs, of the graph alone", "energies"),
    )
    told = ["Errors of the default, means over seeds, then over data sets."]
    for given, what, command in sources:
        if seeds := curves.seeds(given):
            source = f"`python benchmarks/contest {command}`, {link(f'contest_{command}')}"
            told.append(f"{what}, seeds {seeds[0]} to {seeds[-1]}: {source}.")
    if curves.left_out:
        told.append(f"Left out, with too few rows for {curves.draws[-1]}: {', '.join(curves.left_out)}.")
    return "\n".join([*curve_table(curves), "", " ".join(told)])


#: What features to labels is made of in ``end_to_end.csv``, by the number of rows: its part and its steps.
_STEPS = {
    70_000: ("features", ("knn_graph and CREPE",)),
    1_000_000: ("million", ("knn_graph, a million rows", "CREPE on it")),
}


def sizes(folder: Path) -> str | None:
    """Seconds and memory by the number of rows."""
    calls = {row["nodes"]: row for row in read_rows(folder / "scaling.csv") if row["series"] == "nodes"}
    timed = read_rows(folder / "end_to_end.csv")
    whole = {rows: seconds for rows in _STEPS if (seconds := _whole(timed, rows)) is not None}
    if not calls or not whole:
        return None
    body = []
    for rows in sorted({*calls, *whole}):
        call = calls.get(rows)
        told = ["–", "–"] if call is None else [_seconds(call["seconds"]), f"{call['peak_gb']:.2f}"]
        body.append([f"{rows:,}", *told, _seconds(whole[rows]) if rows in whole else "–"])
    header = ["rows", "graph given: seconds", "GB above its inputs", "features to labels: seconds"]
    made = ""
    if max(whole) > min(_STEPS):
        load = median([row["load"] for row in timed if row["part"] == _STEPS[max(whole)][0]])
        made = f" and, made ones, at a million (`--parts million`, at a load of {load:.0f})"
    text = (
        "Seconds on the clock. Graph given: CREPE alone, ten classes, made points in three dimensions with 20 "
        f"neighbours each (`python benchmarks/scaling.py`, {link('scaling')}). Features to labels: `knn_graph` and "
        f"CREPE, 128 features, Fashion-MNIST at 70,000 rows{made} (`python benchmarks/end_to_end.py`, "
        f"{link('end_to_end')})."
    )
    return "\n".join([*markdown(header, body), "", text])


def _whole(rows: list[dict[str, Any]], number: int) -> float | None:
    """The median seconds of features to labels: those of its steps together."""
    part, steps = _STEPS[number]
    found = [[row["seconds"] for row in rows if (row["part"], row["what"]) == (part, step)] for step in steps]
    return sum(median(own) for own in found) if all(found) else None


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value < 20 else f"{value:.0f}"


def trust(folder: Path) -> str | None:
    """What ``prob``, ``expected_error`` and the least certain fifth were worth, in sentences."""
    rows = read_rows(folder / "contest_certainty.csv")
    if not rows:
        return None
    results = certainty_report.Results(rows)
    counted = [draw for draw in results.draws if draw.endswith("per class")]
    if HEAD not in results.methods or not counted:
        return None
    few, many = (f"{results.mean(HEAD, 'ece', draw):.0f} with {_labels(draw)}" for draw in (counted[0], counted[-1]))
    found, most = (results.mean(HEAD, column) for column in ("found", "most"))
    family, held = results.least_held(HEAD)
    families = {family for family, _ in results.places}
    return (
        f"Over {len(families)} data sets `prob` of the default is {results.mean(HEAD, 'ece'):.0f} points off on "
        f"average, {few} and {many}. The interval of `expected_error`, which is meant to hold the true error 90 times "
        f"in 100, held it {results.held(HEAD):.0f} times ({held:.0f} on {family}, the worst). The least certain fifth "
        f"of the rows holds {found:.0f} of 100 errors, where at most {most:.0f} could be and chance finds 20; with it "
        f"put right the error falls from {results.mean(HEAD, 'error'):.1f} to {results.mean(HEAD, 'left'):.1f} %. "
        f"`python benchmarks/contest certainty`: {link('contest_certainty')}."
    )


def _labels(draw: str) -> str:
    count = draw.split()[0]
    return f"{count} label{'' if count == '1' else 's'} per class"


#: The parts by name.
MAKERS: dict[str, Callable[[Path], str | None]] = {"few_labels": few_labels, "sizes": sizes, "trust": trust}
