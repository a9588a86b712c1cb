"""Features and graph together on citation graphs: a GCN and CREPE in turns beside PyG's networks and CREPE alone.

    python benchmarks/together.py                # seeds 0-9, writes benchmarks/results/together.csv, .md and .png
    python benchmarks/together.py --plan         # what would be run, and about how long
    python benchmarks/together.py --report       # only writes what is finished
    python benchmarks/together.py --seeds 100 110 --out some/folder      # development seeds
    python benchmarks/together.py --graphs Cora --draws "20 per class" --methods GCN "GCN + CREPE"

Methods, graphs and draws are those of :mod:`shared.planetoid_job`. A part of the table, or other seeds, is printed and
only written where ``--out`` says. The run may be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared import machine
from shared.command import run_command
from shared.grid import CellStore
from shared.options import add_run_options, check_run_options
from shared.planetoid_job import DRAWS, GRAPHS, METHODS, make_cell, make_job
from shared.planetoid_report import Results, draw_bars, summary

SEEDS = (0, 10)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "END"))
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--draws", nargs="+", choices=DRAWS, default=list(DRAWS), metavar="DRAW", help="%(choices)s")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    chosen = (tuple(options.seeds), set(options.graphs), set(options.draws), set(options.methods))
    if options.out is None and chosen == (SEEDS, set(GRAPHS), set(DRAWS), set(METHODS)):
        options.out = machine.RESULTS
    return options


def main() -> None:
    options = parse_arguments()
    # A run that is stopped has every method on the same first seeds.
    cells = [
        make_cell(graph, draw, seed, method)
        for seed in range(*options.seeds)
        for graph in GRAPHS
        for draw in DRAWS
        for method in METHODS
        if graph in options.graphs and draw in options.draws and method in options.methods
    ]
    store = CellStore(machine.cache_folder() / "together_cells")
    run_command(cells, make_job, store, options, report, "together")


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    return summary(results, failed), functools.partial(draw_bars, results)


if __name__ == "__main__":
    main()
