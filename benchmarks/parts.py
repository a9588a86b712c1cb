"""What every part of CREPE's recipe gains and loses, on every family of data.

    python benchmarks/parts.py                      # seeds 100-102, writes benchmarks/results/parts.csv, .md and .png
    python benchmarks/parts.py --plan               # what would be run, and about how long
    python benchmarks/parts.py --report             # only writes what is finished
    python benchmarks/parts.py --families digits TREC --draws "5 per class" --out some/folder

Parts are those of :mod:`shared.part_job`, families and draws those of :mod:`shared.families`. The seeds are those of
development: the page explains choices that were made on them, and what the defaults are worth is asked by
``families.py``. A part of the table, or other seeds, is printed and only written where ``--out`` says. The run may be
stopped at any time: the same command goes on where it was. A family whose package or data is missing is left out.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from shared import machine
from shared.families import DRAWS, FEATURES, GRAPHS
from shared.family_job import prepare_families
from shared.grid import CellStore, exit_with, run_or_stop, tell_left
from shared.options import add_run_options, check_run_options
from shared.part_job import make_cell, make_job
from shared.part_report import COLUMNS, PartResults, draw_parts, summary

SEEDS, FAMILIES = (100, 103), (*FEATURES, *GRAPHS)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "END"))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--draws", nargs="+", choices=DRAWS, default=list(DRAWS), metavar="DRAW")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    whole = (tuple(options.seeds), set(options.families), set(options.draws)) == (SEEDS, set(FAMILIES), set(DRAWS))
    if options.out is None and whole:
        options.out = machine.RESULTS
    return options


def main() -> None:
    options = parse_arguments()
    paths = prepare_families(name for name in FAMILIES if name in options.families)
    # A run that is stopped has everything on the same first seeds.
    cells = [
        make_cell(path, draw, seed)
        for seed in range(*options.seeds)
        for path in paths.values()
        for draw in DRAWS
        if draw in options.draws
    ]
    # The store of families.py, which has some of the same rows.
    store = CellStore(machine.cache_folder() / "families_cells")
    tell_left(cells, store)
    if options.plan:
        return
    failed: dict[str, str] = {}
    if not options.report:
        job = functools.partial(make_job, store.folder, tuple(paths.items()))
        failed = run_or_stop(cells, job, store, options.workers)
    rows = [row for cell in cells if store.has(cell) for row in store.read(cell)]
    if rows:
        results = PartResults(rows)
        text = summary(results, len(failed))
        print(text)
        if options.out is not None:
            stem = options.out / "parts"
            machine.write_csv([{name: row[name] for name in COLUMNS} for row in rows], stem.with_suffix(".csv"))
            machine.write_text(text, stem.with_suffix(".md"))
            draw_parts(results, stem.with_suffix(".png"))
    exit_with(failed)


if __name__ == "__main__":
    main()
