"""From features to labels: our default beside what people use on features, on tables, images, texts and clouds.

    python benchmarks/contest features           # seeds 0-9, writes benchmarks/results/contest_features.csv, .md, .png
    python benchmarks/contest features --plan    # what would be run, and about how long
    python benchmarks/contest features --report  # only writes what is finished
    python benchmarks/contest features --seeds 100 102 --families iris wine --out some/folder      # development seeds

Families and draws are those of ``contest energies``, whose rows are set beside these; ``CrepeClassifier`` is our
default, the others are in :mod:`shared.estimators`. A part of the table, or other seeds, is printed and only written
where ``--out`` says. The run may be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest.table import run_table
from shared import machine
from shared.families import DRAWS
from shared.features_job import FAMILIES, SECONDS, make_cell, make_job
from shared.features_report import draw_map, energy_rows, summary
from shared.options import new_parser, parse_table

SEEDS = (0, 10)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, families=FAMILIES, draws=DRAWS, methods=tuple(SECONDS))


def main() -> None:
    options = parse_arguments()
    run_table(options, options.families, make_cell, make_job, report, "contest_features")


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of features to labels, with the energies of the other table."""
    everything = [*rows, *energy_rows(rows, machine.RESULTS / "contest_energies.csv")]
    return summary(everything, failed), functools.partial(draw_map, everything)
