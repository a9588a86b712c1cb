"""Features and a graph: CREPE, a GCN and both in turns beside PyG's networks on citation graphs.

    python benchmarks/contest graphs             # seeds 0-9, writes benchmarks/results/contest_graphs.csv, .md, .png
    python benchmarks/contest graphs --plan      # what would be run, and about how long
    python benchmarks/contest graphs --report    # only writes what is finished
    python benchmarks/contest graphs --seeds 100 110 --out some/folder       # development seeds
    python benchmarks/contest graphs --graphs Cora --draws "20 per class" --methods GCN "GCN + CREPE"

Methods and draws are those of :mod:`shared.planetoid_job`. A part of the table, or other seeds, is printed and only
written where ``--out`` says. The run may be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest.table import run_table
from shared.options import new_parser, parse_table
from shared.planetoid_job import DRAWS, GRAPHS, METHODS, make_cell, make_job
from shared.planetoid_report import Results, draw_bars, summary

SEEDS = (0, 10)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, graphs=GRAPHS, draws=DRAWS, methods=tuple(METHODS))


def main() -> None:
    options = parse_arguments()
    run_table(options, options.graphs, make_cell, make_job, report, "contest_graphs")


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    return summary(results, failed), functools.partial(draw_bars, results)
