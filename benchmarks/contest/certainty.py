"""Is a method as sure as it is right, and do its errors lie where it is not sure?

    python benchmarks/contest certainty          # seeds 0-4, writes benchmarks/results/contest_certainty.csv, .md, .png
    python benchmarks/contest certainty --plan   # what would be run, and about how long
    python benchmarks/contest certainty --report # only writes what is finished
    python benchmarks/contest certainty --seeds 100 102 --families digits TREC --out some/folder   # development seeds

Calibration error, how often the interval of the expected error holds the true one, and how many of the errors lie in
the least certain fifth, for CREPE, for CREPE with its linear head and for others that say how sure they are. Families,
draws and methods are those of :mod:`shared.certainty_job`. A part of the table, or other seeds, is printed and only
written where ``--out`` says. The run may be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest.table import run_table
from shared.certainty_job import DRAWS, FAMILIES, METHODS, make_cell, make_job
from shared.certainty_report import draw_reliability, summary
from shared.options import new_parser, parse_table

SEEDS = (0, 5)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, families=FAMILIES, draws=DRAWS, methods=tuple(METHODS))


def main() -> None:
    options = parse_arguments()
    store = "certainty_cells"
    run_table(options, options.families, make_cell, make_job, report, "contest_certainty", store)


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    return summary(rows, failed), functools.partial(draw_reliability, rows)
