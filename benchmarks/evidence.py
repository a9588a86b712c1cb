"""Does soft evidence help where it is right, and is it ignored where it is noise, constant or wrong?

    python benchmarks/evidence.py                   # seeds 0-4, writes benchmarks/results/evidence.csv, .md and .png
    python benchmarks/evidence.py --plan            # what would be run, and about how long
    python benchmarks/evidence.py --seeds 100 103 --families TREC --out some/folder      # development seeds
    python benchmarks/evidence.py --report          # only writes what is finished

Guesses are made up from the truth: 40, 60 or 80 % of them are right, and their errors lie in certain classes
(:mod:`shared.evidence_job`). The run may be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from shared import machine
from shared.command import run_command
from shared.evidence_job import DRAWS, FAMILIES, KINDS, make_cell, make_job
from shared.grid import CellStore
from shared.options import new_parser, parse_table
from shared.picture import write_picture
from shared.table import markdown, opening

SEEDS = (0, 5)

#: Points of error that evidence which should be ignored may cost.
HARMLESS = 0.5


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, families=FAMILIES, draws=DRAWS)


def main() -> None:
    options = parse_arguments()
    cells = [
        make_cell(family, draw, seed, kind)
        for seed in range(*options.seeds)
        for family in options.families
        for draw in options.draws
        for kind in KINDS
    ]
    store = CellStore(machine.cache_folder() / "evidence_cells")
    run_command(cells, make_job, store, options, report, "evidence")


class Results:
    """Means over the seeds that have every kind of evidence.

    Args:
        rows (list): One per family, draw, seed and kind.
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        found = {(row["family"], row["draw"], row["seed"], row["kind"]): row for row in rows}
        places = dict.fromkeys((row["family"], row["draw"], row["seed"]) for row in rows)
        self.seeds = sorted({seed for place in places for seed in place[2:]})
        self._rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for family, draw, seed in places:
            own = {kind: found.get((family, draw, seed, kind)) for kind in KINDS}
            if all(own.values()):
                self._rows.setdefault((family, draw), []).append(own)
        self.places = list(self._rows)

    def mean(self, place: tuple[str, str], kind: str, value: str = "error") -> float:
        """The mean of a column of a cell."""
        return float(np.mean([own[kind][value] for own in self._rows[place]]))


def _ignored(results: Results, place: tuple[str, str], kind: str) -> str:
    change = results.mean(place, kind) - results.mean(place, "none")
    text = f"{change:+.1f}".replace("-", "−")
    return f"**{text}**" if change > HARMLESS else text


def _helped(results: Results, place: tuple[str, str], kind: str) -> str:
    error, alone = results.mean(place, kind), results.mean(place, kind, "alone")
    text = f"{error:.1f} ({alone:.1f})"
    return text if error < min(alone, results.mean(place, "none")) else f"**{text}**"


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    ignored = [kind for kind in KINDS if kind != "none" and not kind.endswith("right")]
    helped = [kind for kind in KINDS if kind.endswith("right")]
    body = [
        [
            *place,
            f"{results.mean(place, 'none'):.1f}",
            *(_ignored(results, place, kind) for kind in ignored),
            *(_helped(results, place, kind) for kind in helped),
        ]
        for place in results.places
    ]
    lines = [
        *opening(failed),
        f"Errors in %, means of seeds {results.seeds[0]} to {results.seeds[-1]}. Evidence that should be ignored: the "
        f"change of CREPE's error in points, in bold above {HARMLESS}. Guesses: the error with them and, in brackets, "
        "that of the guess alone; in bold where it is not below both that and CREPE's without evidence.",
        "",
        *markdown(["family", "labels", "no evidence", *ignored, *helped], body),
    ]
    return "\n".join(lines) + "\n", functools.partial(draw_lines, results, helped)


def draw_lines(results: Results, helped: list[str], path: Path) -> None:
    """A panel per family: the error by labels per class, with and without a guess; dashed, the guess alone."""
    from matplotlib.figure import Figure

    families = list(dict.fromkeys(family for family, _ in results.places))
    figure = Figure(figsize=(3.2 * len(families), 3.2), layout="constrained")
    panels = figure.subplots(1, len(families), squeeze=False)[0]
    for axes, family in zip(panels, families, strict=True):
        places = [place for place in results.places if place[0] == family]
        labels = [place[1].split()[0] for place in places]
        axes.plot(labels, [results.mean(place, "none") for place in places], "k-o", ms=3, label="no evidence")
        for number, kind in enumerate(helped):
            colour = f"C{number}"
            axes.plot(labels, [results.mean(place, kind) for place in places], "-o", ms=3, color=colour, label=kind)
            axes.axhline(results.mean(places[0], kind, "alone"), color=colour, lw=0.8, ls="--")
        axes.set(title=family, xlabel="labels per class", ylim=(0, None))
    panels[0].set_ylabel("error in %")
    panels[0].legend(fontsize=7)
    write_picture(figure, path)


if __name__ == "__main__":
    main()
