r"""Does CREPE help a network, and where? The hybrid framework on real images.

    python benchmarks/hybrid network     # energy against network: Fashion-MNIST and a part of CIFAR-10
    python benchmarks/hybrid energy      # energy against energy: PneumoniaMNIST, BreastMNIST, a part of ChestX-ray14
    python benchmarks/hybrid pieces      # every part of the trainer switched, one at a time
    python benchmarks/hybrid calibration # how sure pseudo-labels are when networks of half the labels are asked
    python benchmarks/hybrid network_mixup   # energy against network once more, all four with mixup
    python benchmarks/hybrid network_soft    # and with soft targets, Fashion-MNIST alone
    python benchmarks/hybrid energy_soft     # energy against energy once more, all four with soft targets
    python benchmarks/hybrid network --plan     # what would be run, and about how long
    python benchmarks/hybrid network --quick    # a very small version, seed 100; writes hybrid_quick_*
    python benchmarks/hybrid features --save-features FOLDER   # networks on all of Fashion-MNIST, for Table 1

An experiment writes ``benchmarks/results/hybrid_<name>.csv`` and ``.md``, ``docs/images/hybrid_<name>.png`` and its
part of ``docs/hybrid.md``. Supervised, network, LGC and CREPE runs of a seed have the same first weights, labelled
images and number of steps, and no test label enters anything but the tables. The run may be stopped at any time: the
same command goes on where it was, and a second one beside it takes a share of the work. After ``features``, run

    python benchmarks/table1 --features FOLDER/fashion_mnist_crepe_1_seed0.npz --columns "1 %" --seeds 0 1

(and so for the other files): the network has seen the labels of that column and seed, and no other.
"""

from __future__ import annotations

import argparse
import functools
import os
from dataclasses import replace
from pathlib import Path

from hybrid import report as hybrid_report
from hybrid.cases import AS_IT_IS, PIECES, SMALLER, SOURCES, Case, case_of
from hybrid.job import features_name, make_cell, make_job
from hybrid.page import EXPERIMENTS, page_text, read, report_text
from shared import machine
from shared.grid import Cell, CellStore, exit_with, run_or_stop
from shared.page import fill

DOCS = machine.DOCS

#: The seed of the quick version, out of the way of the reported ones.
QUICK_SEED = 100

#: Shares of labels of the medical data.
RATES = (5, 10, 20)

#: The seeds that a data set has in an experiment. Soft targets on Fashion-MNIST came last: on seeds that no experiment
#: had seen, and so without runs of hard targets beside them.
SEEDS = {
    "network": {"fashion_mnist": range(10), "cifar10_subset": range(10)},
    "energy": {"pneumoniamnist": range(10), "breastmnist": range(10), "chestxray14_subset": range(3)},
    "pieces": {"fashion_mnist": range(5), "pneumoniamnist": range(5)},
    "network_mixup": {"fashion_mnist": range(10), "cifar10_subset": range(10)},
    "network_soft": {"fashion_mnist": range(10, 20)},
    "energy_soft": {"pneumoniamnist": range(10), "breastmnist": range(10), "chestxray14_subset": range(3)},
    "calibration": dict.fromkeys(("fashion_mnist", "cifar10_subset", "pneumoniamnist", "breastmnist"), range(10)),
    "features": {"fashion_mnist": range(1)},
}


def cases_of(experiment: str) -> list[Case]:
    """The data sets of an experiment with their shares of labels."""
    if experiment in ("network", "network_mixup", "network_soft"):
        percents = {"fashion_mnist": 1, "cifar10_subset": 10}
        return [case_of(data, percents[data]) for data in SEEDS[experiment]]
    if experiment in ("energy", "energy_soft"):
        return [case_of(data, rate) for data in SEEDS[experiment] for rate in RATES]
    if experiment == "pieces":
        return [case_of("fashion_mnist", 1, **SMALLER), case_of("pneumoniamnist", 5)]
    if experiment == "calibration":
        medical = [case_of(data, rate) for data in ("pneumoniamnist", "breastmnist") for rate in RATES]
        return [case_of("fashion_mnist", 1, **SMALLER), case_of("cifar10_subset", 10), *medical]
    whole = {"images": 70_000, "watched": 0, "epochs": 3}
    return [replace(case_of("fashion_mnist", percent, **whole), everything=True) for percent in (1, 10)]


def small(case: Case) -> Case:
    """The same case in a few seconds."""
    setting = case.setting
    size = {"images": min(300, setting.images), "watched": 100, "epochs": 1, "warmup_steps": 4}
    return replace(case, setting=replace(setting, **size))


def make_cells(experiment: str, quick: bool, seeds: range | None) -> list[Cell]:
    """All cells, seed by seed: a run that is stopped has everything on the same first seeds."""
    cases = cases_of(experiment)
    if quick:  # one share of labels a data set
        cases = list({case.data: small(case) for case in cases}.values())
        seeds = seeds or range(QUICK_SEED, QUICK_SEED + 1)
    pairs = {
        "pieces": [("crepe", piece) for piece in PIECES],
        "calibration": [("crepe", hybrid_report.HALVES)],
        "features": [("none", AS_IT_IS), ("crepe", AS_IT_IS)],
    }.get(experiment, [(source, hybrid_report.CHANGED.get(experiment, AS_IT_IS)) for source in SOURCES])
    cells = [
        make_cell(case, source, piece, seed)
        for case in cases
        for seed in seeds or SEEDS[experiment][case.data]
        for source, piece in pairs
    ]
    return sorted(cells, key=lambda cell: int(cell.point["seed"]))


def describe_plan(cells: list[Cell], store: CellStore, workers: int) -> str:
    """What is left to do, by data set and source."""
    lines = [f"{'data':22} {'labels':>7} {'from':9} {'piece':24} {'cells':>6} {'left':>5} {'s each':>7}"]
    names = ("data", "percent", "source", "piece")
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(str(cell.point[name]) for name in names), []).append(cell)
    for (data, percent, source, piece), own in groups.items():
        left = sum(not store.has(cell) for cell in own)
        lines.append(f"{data:22} {percent:>5} % {source:9} {piece:24} {len(own):6} {left:5} {own[0].expected:7.1f}")
    seconds = sum(cell.expected for cell in cells if not store.has(cell))
    return "\n".join(
        [*lines, f"{seconds:.0f} s of work, about {seconds / workers / 60:.0f} min by {workers} worker(s)"]
    )


def write_report(experiment: str, table: Path, failed: int, full: bool) -> str:
    """Writes the tables and the figure of a csv file; a full run also goes into the page of the site."""
    text = report_text(experiment, table, failed)
    machine.write_text(text, table.with_suffix(".md"))
    # The pages of the site can show no picture from outside their folder.
    images = DOCS / "images" if full else table.parent
    images.mkdir(parents=True, exist_ok=True)
    hybrid_report.draw(experiment, read(experiment, table), images / f"{table.stem}.png")
    if full and experiment in EXPERIMENTS:
        fill(DOCS / "hybrid.md", table.stem, page_text(experiment, table))
    return text


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=list(SEEDS))
    parser.add_argument("--quick", action="store_true", help="a very small version of it; writes hybrid_quick_*")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "END"), help="for trying: 100 and above")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that share the cells")
    parser.add_argument("--plan", action="store_true", help="only say what would be run")
    parser.add_argument("--report", action="store_true", help="only make tables and figures of the csv file again")
    parser.add_argument("--save-features", type=Path, metavar="FOLDER", help="write the features of every network")
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, got {options.workers}")
    if options.experiment in ("pieces", *hybrid_report.CHANGED, "calibration") and options.save_features is not None:
        parser.error("--save-features goes with the other experiments: runs of these would share their names")
    if options.experiment == "features" and options.save_features is None and not (options.plan or options.report):
        parser.error("features needs --save-features FOLDER, a place for about 36 MB a network")
    return options


def main() -> None:
    options = parse_arguments()
    stem = f"hybrid_{'quick_' if options.quick else ''}{options.experiment}{'_trial' if options.seeds else ''}"
    table = options.out / f"{stem}.csv"
    full = options.out == machine.RESULTS and not options.quick and not options.seeds
    if options.report:
        print(write_report(options.experiment, table, 0, full))
        return
    cells = make_cells(options.experiment, options.quick, range(*options.seeds) if options.seeds else None)
    store = CellStore(machine.cache_folder() / "hybrid_cells")
    adopted = store.adopt(cells, table)
    if adopted:
        print(f"{adopted} cells are taken from {table.name}")
    folder = options.save_features
    for cell in cells:
        if folder is not None and not options.plan and not (folder / f"{features_name(cell)}.npz").exists():
            store.forget(cell)
    print(describe_plan(cells, store, options.workers), flush=True)
    if options.plan:
        return
    failed = run_or_stop(cells, functools.partial(make_job, features=folder), store, options.workers)
    rows = [dict(row) for cell in cells if store.has(cell) for row in store.read(cell)]
    if rows:
        options.out.mkdir(parents=True, exist_ok=True)
        machine.write_csv(rows, table)
        print(write_report(options.experiment, table, len(failed), full))
    exit_with(failed)


if __name__ == "__main__":
    main()
