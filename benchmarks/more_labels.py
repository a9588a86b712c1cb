"""Do more labels ever hurt: the error at 20, 50, 100 and 200 labels that ``label_next`` asks for, or chance.

    python benchmarks/more_labels.py                # seeds 0-9, writes benchmarks/results/more_labels.csv, .md and .png
    python benchmarks/more_labels.py --plan         # what would be run, and about how long
    python benchmarks/more_labels.py --report       # only writes what is finished
    python benchmarks/more_labels.py --seeds 100 103 --out some/folder      # development seeds
    python benchmarks/more_labels.py --families digits TREC --ways chosen

The ways to choose and the steps are those of :mod:`shared.step_job`, the families some of :mod:`shared.families`. A
part of the table, or other seeds, is printed and only written where ``--out`` says. The run may be stopped at any time:
the same command goes on where it was. A family whose data are missing is left out.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared import machine
from shared.command import run_command
from shared.family_job import prepare_families
from shared.grid import CellStore
from shared.options import new_parser, parse_table
from shared.step_job import WAYS, make_cell, make_job
from shared.step_report import Results, draw_curves, summary

SEEDS = (0, 10)

#: Images with features of a trained network and without, small ones, and texts.
FAMILIES = ("CIFAR-10 pretrained", "digits", "Fashion-MNIST", "TREC")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    return parse_table(new_parser(__doc__), arguments, SEEDS, families=FAMILIES, ways=WAYS)


def main() -> None:
    options = parse_arguments()
    paths = prepare_families(options.families)
    # A run that is stopped has everything on the same first seeds.
    cells = [
        make_cell(path, way, seed) for seed in range(*options.seeds) for path in paths.values() for way in options.ways
    ]
    store = CellStore(machine.cache_folder() / "more_labels_cells")
    run_command(cells, functools.partial(make_job, tuple(paths.items())), store, options, report, "more_labels")


def report(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the rows."""
    results = Results(rows)
    return summary(results, failed), functools.partial(draw_curves, results)


if __name__ == "__main__":
    main()
