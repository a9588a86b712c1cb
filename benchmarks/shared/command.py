"""The course of a command of many cells: what is left is said and run, what is finished is printed and written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shared import machine
from shared.grid import Cell, CellStore, MakeJob, exit_with, run_or_stop, tell_left

#: The results of rows, their text, given how many cells failed, and their picture, which is written to a file.
Report = Callable[[list[dict[str, Any]], int], tuple[str, Callable[[Path], None]]]


def run_command(
    cells: Sequence[Cell],
    make_job: MakeJob,
    store: CellStore,
    options: argparse.Namespace,
    report: Report,
    stem: str,
    columns: Sequence[str] | None = None,
) -> None:
    """Runs the cells that are not finished and reports all that are.

    Args:
        cells (list): All cells of the table.
        make_job (callable): Makes the job of a worker.
        store (CellStore): Where finished cells are.
        options (argparse.Namespace): With those of :mod:`shared.options`, and the folder ``out`` of the results, or
            none where they are only printed.
        report (callable): See :data:`Report`.
        stem (str): The name of the results, without an ending.
        columns (list, optional): Those that the table keeps. (default: :obj:`None`, all)
    """
    tell_left(cells, store)
    if options.plan:
        return
    failed: dict[str, str] = {} if options.report else run_or_stop(cells, make_job, store, options.workers)
    rows: list[dict[str, Any]] = [{**row} for cell in cells if store.has(cell) for row in store.read(cell)]
    if rows:
        text, draw = report(rows, len(failed))
        print(text)
        if options.out is not None:
            path = options.out / stem
            kept = rows if columns is None else [{name: row[name] for name in columns} for row in rows]
            machine.write_csv(kept, path.with_suffix(".csv"))
            machine.write_text(text, path.with_suffix(".md"))
            draw(path.with_suffix(".png"))
    exit_with(failed)
