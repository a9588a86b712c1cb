"""What every part of CREPE's recipe gains and loses, on every family of data.

    python benchmarks/parts.py                      # seeds 100-102, writes benchmarks/results/parts.csv, .md and .png
    python benchmarks/parts.py --plan               # what would be run, and about how long
    python benchmarks/parts.py --report             # only writes what is finished
    python benchmarks/parts.py --families digits TREC --draws "5 per class" --out some/folder

Parts are those of :mod:`shared.part_job`, families and draws those of :mod:`shared.families`. The seeds are those of
development: the page explains choices that were made on them, and what the defaults are worth is asked by
``contest energies``. A part of the table, or other seeds, is printed and only written where ``--out`` says. The run may
be stopped at any time: the same command goes on where it was. A family whose package or data is missing is left out.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared import machine
from shared.command import run_command
from shared.families import DRAWS, FEATURES, GRAPHS
from shared.family_job import prepare_families
from shared.grid import CellStore
from shared.options import new_parser, parse_table
from shared.part_job import make_cell, make_job
from shared.part_report import COLUMNS, PartResults, draw_parts, summary

SEEDS, FAMILIES = (100, 103), (*FEATURES, *GRAPHS)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, families=FAMILIES, draws=DRAWS)


def main() -> None:
    options = parse_arguments()
    paths = prepare_families(options.families)
    # A run that is stopped has everything on the same first seeds.
    cells = [
        make_cell(path, draw, seed)
        for seed in range(*options.seeds)
        for path in paths.values()
        for draw in options.draws
    ]
    # The store of the contest of the energies, which has some of the same rows.
    store = CellStore(machine.cache_folder() / "families_cells")
    job = functools.partial(make_job, store.folder, tuple(paths.items()))
    run_command(cells, job, store, options, report, "parts", COLUMNS)


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = PartResults(rows)
    return summary(results, failed), functools.partial(draw_parts, results)


if __name__ == "__main__":
    main()
