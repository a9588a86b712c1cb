"""Do the defaults hold on many families of data and draws of labels: every energy on all of them.

    python benchmarks/families.py                   # seeds 0-9, writes benchmarks/results/families.csv, .md and .png
    python benchmarks/families.py --plan            # what would be run, and about how long
    python benchmarks/families.py --unseen          # families that took no part in the development; families_unseen.*
    python benchmarks/families.py --report          # only writes what is finished
    python benchmarks/families.py --seeds 100 103 --out some/folder     # development seeds
    python benchmarks/families.py --families digits TREC --draws "5 per class" --methods crepe lgc

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
from shared.family_report import Results, draw_map, summary
from shared.grid import CellStore
from shared.options import add_run_options, check_run_options

SEEDS = (0, 10)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``families`` and ``out`` are what is meant where they are not given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "END"))
    parser.add_argument("--families", nargs="+", choices=[*FEATURES, *GRAPHS, *UNSEEN], metavar="FAMILY")
    parser.add_argument("--unseen", action="store_true", help=f"those that took no part: {', '.join(UNSEEN)}")
    parser.add_argument("--draws", nargs="+", choices=DRAWS, default=list(DRAWS), metavar="DRAW")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    if CREPE not in options.methods or not set(OTHERS) & set(options.methods):
        parser.error(f"--methods must hold {CREPE} and one of {', '.join(OTHERS)}, got {', '.join(options.methods)}")
    if options.families and options.unseen:
        parser.error("--families and --unseen must not both be given")
    whole = (tuple(options.seeds), options.families, set(options.draws), set(options.methods)) == (
        SEEDS,
        None,
        set(DRAWS),
        set(METHODS),
    )
    if options.out is None and whole:
        options.out = machine.RESULTS
    options.families = options.families or list(UNSEEN if options.unseen else [*FEATURES, *GRAPHS])
    return options


def main() -> None:
    options = parse_arguments()
    paths, methods = prepare_families(options.families), tuple(name for name in METHODS if name in options.methods)
    # A run that is stopped has everything on the same first seeds.
    cells = [
        make_cell(path, draw, seed, methods)
        for seed in range(*options.seeds)
        for path in paths.values()
        for draw in DRAWS
        if draw in options.draws
    ]
    store = CellStore(machine.cache_folder() / "families_cells")
    job = functools.partial(make_job, methods, store.folder, tuple(paths.items()))
    run_command(cells, job, store, options, report, "families_unseen" if options.unseen else "families")


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    return summary(results, failed), functools.partial(draw_map, results)


if __name__ == "__main__":
    main()
