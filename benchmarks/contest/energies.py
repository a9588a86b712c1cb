"""Energy against energy: do the defaults hold on many families of data and draws of labels?

    python benchmarks/contest energies                   # seeds 0-9, writes benchmarks/results/contest_energies.*
    python benchmarks/contest energies --plan            # what would be run, and about how long
    python benchmarks/contest energies --unseen          # families that took no part; contest_energies_unseen.*
    python benchmarks/contest energies --report          # only writes what is finished
    python benchmarks/contest energies --seeds 100 103 --out some/folder     # development seeds
    python benchmarks/contest energies --families digits TREC --draws "5 per class" --methods crepe lgc

The defaults were developed with an eye on all families but the unseen ones, so only ``--unseen`` says what they are
worth on new data. Families and draws are those of :mod:`shared.families`, methods those of :mod:`shared.family_job`.
A part of the table, or other seeds, is printed and only written where ``--out`` says. The run may be stopped at any
time: the same command goes on where it was, and only methods whose code has changed are run again. A family whose
package or data is missing is left out.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared import machine
from shared.command import run_command
from shared.families import DRAWS, FEATURES, GRAPHS, UNSEEN
from shared.family_job import CREPE, METHODS, OTHERS, make_cell, make_job, prepare_families
from shared.family_report import COLUMNS, Results, draw_map, summary
from shared.grid import CellStore
from shared.options import new_parser, parse_table

SEEDS = (0, 10)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``families`` and ``out`` are what is meant where they are not given."""
    parser = new_parser(__doc__)
    parser.add_argument("--unseen", action="store_true", help=f"those that took no part: {', '.join(UNSEEN)}")
    options = parse_table(parser, arguments, SEEDS, families=_families, draws=DRAWS, methods=tuple(METHODS))
    if CREPE not in options.methods or not set(OTHERS) & set(options.methods):
        parser.error(f"--methods must hold {CREPE} and one of {', '.join(OTHERS)}, got {', '.join(options.methods)}")
    return options


def _families(options: argparse.Namespace) -> list[str]:
    return list(UNSEEN) if options.unseen else [*FEATURES, *GRAPHS]


def main() -> None:
    options = parse_arguments()
    paths, methods = prepare_families(options.families), tuple(options.methods)
    # A run that is stopped has everything on the same first seeds.
    cells = [
        make_cell(path, draw, seed, methods)
        for seed in range(*options.seeds)
        for path in paths.values()
        for draw in options.draws
    ]
    store = CellStore(machine.cache_folder() / "families_cells")
    job = functools.partial(make_job, methods, store.folder, tuple(paths.items()))
    stem = "contest_energies_unseen" if options.unseen else "contest_energies"
    run_command(cells, job, store, options, report, stem, COLUMNS)


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    return summary(results, failed), functools.partial(draw_map, results)
