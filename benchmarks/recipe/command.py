"""Why CREPE's defaults are what they are: the flow step by step, every constant, every part taken out, hard cases.

    python benchmarks/recipe                     # writes results/recipe_*.csv, .md and .png
    python benchmarks/recipe --quick             # digits and PneumoniaMNIST, one split; writes recipe_quick_*
    python benchmarks/recipe --only ablation     # one experiment, or several
    python benchmarks/recipe --plan              # what would be run, and about how long

Development splits alone (seeds 100 and above). The run may be stopped at any time: the same command goes on where it
was, and ``--report`` writes what is finished. Fashion-MNIST takes part with its first 7,000 images. What comes out is
discussed in ``docs/recipe.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recipe import report
from recipe.experiments import EXPERIMENTS, FIRST_SEED, PANELS, SPLITS, make_cells
from recipe.job import make_job, read_case
from shared import machine
from shared.grid import CellStore, exit_with, run_or_stop, tell_left
from shared.options import add_run_options, check_run_options


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(EXPERIMENTS), default=list(EXPERIMENTS), metavar="EXPERIMENT")
    parser.add_argument("--quick", action="store_true", help="PneumoniaMNIST and digits, one split; recipe_quick_*")
    parser.add_argument("--splits", type=int, default=SPLITS, help=f"how many, from seed {FIRST_SEED}")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    options = parser.parse_args()
    check_run_options(parser, options)
    if options.splits < 1:
        parser.error(f"--splits must be at least 1, got {options.splits}")
    return options


def main() -> None:
    options = parse_arguments()
    seeds = range(FIRST_SEED, FIRST_SEED + (1 if options.quick else options.splits))
    names = [name for name in options.only if not options.quick or name not in ("effects", "labels", "k")]
    cells = make_cells(names, seeds, ["digits", "pneumonia"] if options.quick else None)
    unique = {cell.key: cell for own in cells.values() for cell in own}
    # A run that is stopped has everything on the same first splits.
    wanted = sorted(unique.values(), key=lambda cell: int(cell.point["seed"]))
    store = CellStore(machine.cache_folder() / "recipe_cells")
    tell_left(wanted, store)
    if options.plan:
        return
    failed: dict[str, str] = {}
    if not options.report:
        failed = run_or_stop(wanted, make_job, store, options.workers)
    for name, own in cells.items():
        rows = [{"case": read_case(cell).title, **row} for cell in own if store.has(cell) for row in store.read(cell)]
        if rows:
            stem = options.out / (f"recipe_quick_{name}" if options.quick else f"recipe_{name}")
            lines = report.write(name, rows, EXPERIMENTS[name].rows, PANELS, stem, options.out)
            print("\n".join(lines))
    exit_with(failed)


if __name__ == "__main__":
    main()
