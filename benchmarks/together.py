"""Features and graph together: the default from features to labels beside what people use on features, and a GCN and
CREPE in turns beside PyG's networks on citation graphs.

    python benchmarks/together.py families       # seeds 0-9, writes benchmarks/results/together_families.csv, .md, .png
    python benchmarks/together.py graphs         # seeds 0-9, writes benchmarks/results/together_graphs.csv, .md, .png
    python benchmarks/together.py graphs --plan  # what would be run, and about how long
    python benchmarks/together.py graphs --report                        # only writes what is finished
    python benchmarks/together.py graphs --seeds 100 110 --out some/folder       # development seeds
    python benchmarks/together.py graphs --on Cora --draws "20 per class" --methods GCN "GCN + CREPE"

Methods and draws are those of :mod:`shared.features_job` and :mod:`shared.planetoid_job`. A part of the table, or other
seeds, is printed and only written where ``--out`` says. The run may be stopped at any time: the same command goes on
where it was.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared import families, features_job, features_report, machine, planetoid_job, planetoid_report
from shared.command import Report, run_command
from shared.grid import Cell, CellStore, MakeJob
from shared.options import add_run_options, check_run_options

SEEDS = (0, 10)


@dataclass(frozen=True)
class Part:
    """A table: what it is on, how labels come about, which methods there are, and how its cells are run and told."""

    on: tuple[str, ...]
    draws: tuple[str, ...]
    methods: tuple[str, ...]
    make_cell: Callable[[str, str, int, str], Cell]
    make_job: MakeJob
    report: Report


def report_families(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of features to labels, with the energies of the other table."""
    energies = features_report.energy_rows(rows, machine.RESULTS / "families.csv")
    results = features_report.Results([*rows, *energies])
    text = features_report.summary(results, [row["seed"] for row in rows], failed)
    return text, functools.partial(features_report.draw_map, results)


def report_graphs(rows: list[dict[str, Any]], failed: int) -> tuple[str, Callable[[Path], None]]:
    """The text and the picture of the citation graphs."""
    results = planetoid_report.Results(rows)
    return planetoid_report.summary(results, failed), functools.partial(planetoid_report.draw_bars, results)


PARTS = {
    "families": Part(
        features_job.FAMILIES,
        families.DRAWS,
        tuple(features_job.SECONDS),
        features_job.make_cell,
        features_job.make_job,
        report_families,
    ),
    "graphs": Part(
        planetoid_job.GRAPHS,
        planetoid_job.DRAWS,
        tuple(planetoid_job.METHODS),
        planetoid_job.make_cell,
        planetoid_job.make_job,
        report_graphs,
    ),
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``out`` is what is meant where it is not given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "END"))
    parser.add_argument("--on", nargs="+", metavar="NAME", help="some of the families or graphs (default: all)")
    parser.add_argument("--draws", nargs="+", metavar="DRAW", help="some of the draws (default: all)")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="some of the methods (default: all)")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    whole = tuple(options.seeds) == SEEDS
    for name in ("on", "draws", "methods"):
        known, given = getattr(PARTS[options.part], name), getattr(options, name)
        unknown = [value for value in given or () if value not in known]
        if unknown:
            parser.error(f"--{name} must be of {', '.join(known)}, got {', '.join(unknown)}")
        setattr(options, name, [value for value in known if given is None or value in given])
        whole = whole and len(getattr(options, name)) == len(known)
    if options.out is None and whole:
        options.out = machine.RESULTS
    return options


def main() -> None:
    options = parse_arguments()
    part = PARTS[options.part]
    # A run that is stopped has every method on the same first seeds.
    cells = [
        part.make_cell(on, draw, seed, method)
        for seed in range(*options.seeds)
        for on in options.on
        for draw in options.draws
        for method in options.methods
    ]
    store = CellStore(machine.cache_folder() / "together_cells")
    run_command(cells, part.make_job, store, options, part.report, f"together_{options.part}")


if __name__ == "__main__":
    main()
