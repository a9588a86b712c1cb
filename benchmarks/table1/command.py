r"""The paper's Table 1: every energy model on the same graph and the same splits.

    python benchmarks/table1                    # Fashion-MNIST, writes benchmarks/results/table1.csv, .md and .png
    python benchmarks/table1 --plan             # what would be run, and about how long
    python benchmarks/table1 --quick            # 7,000 images, 2 splits, 3 shares of labels; writes table1_quick.*
    python benchmarks/table1 --features digits  # another data set of benchmarks/features.py, or a .npz file
    python benchmarks/table1 --features digits --k 10
    python benchmarks/table1 --update CREPE     # one row is measured, the others stay as they are in the table
    python benchmarks/table1 --verdict          # CREPE against the best other model, of all tables that are there

Graph: the 20 nearest neighbours of every node in :mod:`shared.features`, self-tuned Gaussian weights. Splits:
stratified, at 1, 2, 5, 10, 20 and 30 % labels (seeds 0–19), and 1, 5 and 10 labels per class (seeds 0–9); cells of more
than five seconds on fewer, as :mod:`table1.methods` says. Smaller data sets have columns of their own (:data:`COLUMNS`)
and seeds 0–19 in all of them. The run may be stopped at any time: the same command goes on where it was. Cells live in
the cache folder, by everything that they depend on, so a changed model is measured anew.
"""

from __future__ import annotations

import argparse
import csv
import functools
from collections.abc import Iterable
from pathlib import Path

from shared import machine
from shared.fingerprint import fingerprint
from shared.grid import Cell, CellStore, Value, exit_with, run_or_stop
from shared.options import add_run_options, check_run_options
from shared.splits import Split
from table1.job import GraphData, make_job, prepare_graph, read_graph
from table1.methods import METHODS, PEER, Method
from table1.report import Results, draw, summary
from table1.verdict import write_verdict

SPLITS, COUNT_SPLITS = 20, 10

#: The shares and the counts of labels, by data set.
COLUMNS: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "digits": ((), (1, 2, 5, 10)),
    "two_moons": ((), (1, 2, 5)),
    "pneumonia": ((0.01, 0.05, 0.2), ()),
    "breast": ((0.05, 0.2), ()),
    "cora": ((), (20,)),
    "citeseer": ((), (20,)),
    "pubmed": ((), (20,)),
    "cifar10": ((0.01, 0.1), (5, 10)),
}

#: Those of Fashion-MNIST and of a user's own features.
_COLUMNS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3), (1, 5, 10)

#: A cell that is expected to take longer than this many seconds is run on a method's ``slow_splits`` alone; a peer's
#: sooner, since it is there to show that our row of the same model is right.
SLOW, SLOW_PEER = 5.0, 1.0

#: The directed edges of the graph on which the seconds of the methods were measured.
EDGES = 2_098_138

QUICK_SHARES, QUICK_SPLITS, QUICK_NODES = (0.01, 0.05, 0.1), 2, 7_000


def columns(data: GraphData, quick: bool) -> list[Split]:
    """The columns of the table."""
    shares, counts = (QUICK_SHARES, ()) if quick else COLUMNS.get(data.name, _COLUMNS)
    found = [Split("share", share) for share in shares] + [Split("count", count) for count in counts]
    return found + ([Split("public")] if data.public is not None and not quick else [])


def seeds_of(method: Method, split: Split, expected: float, seeds: range) -> range:
    """The splits that a method is run on in a column."""
    count = 1 if split.kind == "public" else len(seeds)
    if expected > (SLOW_PEER if method.role == PEER else SLOW):
        count = min(count, method.slow_splits) if method.slow_column in ("", str(split)) else 0
    return seeds[:count]


def make_cells(data: GraphData, methods: Iterable[Method], splits: Iterable[Split], seeds: range) -> list[Cell]:
    """All cells, seed by seed: a run that is stopped has every method on the same first splits."""
    protocol = f"{data.content} {fingerprint('shared.splits')}"
    cells = []
    whole = int(data.component.max()) == 0
    for method in methods:
        if method.connected and not whole:
            continue
        expected = method.seconds * data.edge_index.size(1) / EDGES
        settings = f"{method.settings} {protocol}"
        for split in splits:
            few = split.kind == "count" and data.edge_index.size(1) > EDGES / 2
            for seed in seeds_of(method, split, expected, seeds[:COUNT_SPLITS] if few else seeds):
                point: dict[str, Value] = {"data": data.name, "k": data.k, "split": split.kind, "amount": split.amount}
                cells.append(
                    Cell({**point, "column": str(split), "seed": seed, "method": method.name}, settings, expected)
                )
    return sorted(cells, key=lambda cell: int(cell.point["seed"]))


def describe_plan(cells: list[Cell], store: CellStore, workers: int) -> str:
    """What is left to do, by method."""
    lines = [f"{'method':45} {'cells':>6} {'left':>6} {'s each':>7} {'s left':>7}"]
    total = 0.0
    for method in dict.fromkeys(str(cell.point["method"]) for cell in cells):
        own = [cell for cell in cells if cell.point["method"] == method]
        left = [cell for cell in own if not store.has(cell)]
        seconds = sum(cell.expected for cell in left)
        total += seconds
        lines.append(f"{method:45} {len(own):6} {len(left):6} {own[0].expected:7.1f} {seconds:7.0f}")
    minutes = total / workers / 60
    return "\n".join([*lines, f"{total:.0f} s of work, about {minutes:.0f} min by {workers} worker(s)"])


def kept_rows(path: Path, updated: Iterable[str]) -> list[dict[str, Value]]:
    """The rows of a finished table but for those of some methods."""
    with path.open(newline="", encoding="utf-8") as file:
        return [dict(row) for row in csv.DictReader(file) if row["method"] not in updated]


def report(
    data: GraphData, cells: list[Cell], store: CellStore, failed: int, stem: Path, kept: list[dict[str, Value]]
) -> str:
    """Writes the table of all cells that are finished and of the rows that are kept, its summary and its figure."""
    rows = [row for cell in cells if store.has(cell) for row in store.read(cell)] + kept
    if not rows:
        raise SystemExit("no cell is finished, there is nothing to report")
    stem.parent.mkdir(parents=True, exist_ok=True)
    results = Results(rows)
    degree = data.edge_index.size(1) / data.y.numel()
    graph = f"k = {data.k}" if data.k else "given graph"
    title = (
        f"{data.name}: {data.y.numel():,} nodes, {int(data.y.max()) + 1} classes, {graph}, {degree:.0f} neighbours each"
    )
    text = summary(results, title, failed, compare=data.name == "fashion")
    machine.write_csv([dict(row) for row in rows], stem.with_name(f"{stem.name}.csv"))
    machine.write_text(text, stem.with_name(f"{stem.name}.md"))
    draw(results, stem.with_name(f"{stem.name}.png"))
    return text


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="fashion", help="a name of benchmarks/features.py or a .npz file")
    parser.add_argument("--k", type=int, help="nearest neighbours in the graph (default: 20, two moons 10)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_NODES:,} nodes, {QUICK_SPLITS} splits, 3 columns")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "END"), help="for trying: 100 and above")
    parser.add_argument("--columns", nargs="+", metavar="COLUMN", help='these alone, for example "1 %%" "5 per class"')
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="these rows alone")
    parser.add_argument("--update", nargs="+", metavar="METHOD", help="these rows anew, the others as they stand")
    parser.add_argument("--redo", nargs="+", default=[], metavar="METHOD", help="rows whose cells are run again")
    add_run_options(parser)
    parser.add_argument("--verdict", action="store_true", help="only compare CREPE with the best other of every table")
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    options = parser.parse_args()
    if options.features == "network":
        parser.error(
            "the features of a trained network are not made here: save them as x [N, F] with the classes y [N] in a "
            "file and give --features FILE.npz"
        )
    if options.k is not None and options.k < 1:
        parser.error(f"--k must be at least 1, got {options.k}")
    check_run_options(parser, options)
    names = [method.name for method in METHODS]
    for name in [*(options.methods or []), *(options.update or []), *options.redo]:
        if name not in names:
            parser.error(f"a method must be one of {', '.join(map(repr, names))}, got {name!r}")
    if options.update and (options.methods or options.columns or options.seeds):
        parser.error("--update takes whole rows: it does not go with --methods, --columns or --seeds")
    return options


def output_name(options: argparse.Namespace, data: GraphData) -> str:
    """The stem of the files: a table that is not the whole one must not take its place."""
    name = "table1" if options.features == "fashion" else f"table1_{data.name}"
    name += f"_k{options.k}" if options.k is not None else ""
    partial = options.seeds is not None or options.columns or options.methods
    return name + ("_quick" if options.quick else "") + ("_trial" if partial else "")


def main() -> None:
    options = parse_arguments()
    if options.verdict:
        print(write_verdict())
        return
    path = prepare_graph(options.features, QUICK_NODES if options.quick else None, options.k)
    data = read_graph(path)
    missing = [method.name for method in METHODS if method.predict.missing]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    methods = [
        m for m in METHODS if m.name not in missing and m.name in (options.methods or options.update or [m.name])
    ]
    splits = [split for split in columns(data, options.quick) if str(split) in (options.columns or [str(split)])]
    seeds = range(*options.seeds) if options.seeds else range(QUICK_SPLITS if options.quick else SPLITS)
    cells = make_cells(data, methods, splits, seeds)
    if not cells:
        raise SystemExit("no cell is left by these options, see --plan without them")
    store = CellStore(machine.cache_folder() / "table1_cells")
    stem = options.out / output_name(options, data)
    kept = kept_rows(stem.with_name(f"{stem.name}.csv"), options.update) if options.update else []
    adopted = store.adopt(cells, stem.with_name(f"{stem.name}.csv"))
    if adopted:
        print(f"{adopted} cells are taken from {stem.name}.csv")
    for cell in cells:
        if cell.point["method"] in options.redo and not (options.plan or options.report):
            store.forget(cell)
    print(describe_plan(cells, store, options.workers), flush=True)
    if options.plan:
        return
    failed: dict[str, str] = {}
    if not options.report:
        failed = run_or_stop(cells, functools.partial(make_job, path), store, options.workers)
    print(report(data, cells, store, len(failed), stem, kept))
    exit_with(failed)


if __name__ == "__main__":
    main()
