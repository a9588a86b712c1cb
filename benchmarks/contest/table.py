"""The course of a contest whose cells are one method on one draw each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from shared import machine
from shared.command import Report, run_command
from shared.grid import Cell, CellStore, MakeJob


def run_table(
    options: argparse.Namespace,
    on: Sequence[str],
    make_cell: Callable[[str, str, int, str], Cell],
    make_job: MakeJob,
    report: Report,
    stem: str,
    store: str = "together_cells",
) -> None:
    """Runs and reports every method on every draw of every data set.

    Args:
        options (argparse.Namespace): Those of :func:`shared.options.parse_table`, with ``draws`` and ``methods``.
        on (list): The data sets.
        make_cell (callable): Makes the cell of a data set, a draw, a seed and a method.
        make_job (callable): Makes the job of a worker.
        report (callable): See :data:`shared.command.Report`.
        stem (str): The name of the results, without an ending.
        store (str, optional): The folder of the finished cells in the cache. (default: :obj:`"together_cells"`)
    """
    # A run that is stopped has every method on the same first seeds.
    cells = [
        make_cell(name, draw, seed, method)
        for seed in range(*options.seeds)
        for name in on
        for draw in options.draws
        for method in options.methods
    ]
    run_command(cells, make_job, CellStore(machine.cache_folder() / store), options, report, stem)
