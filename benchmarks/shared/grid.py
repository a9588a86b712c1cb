"""A table of many small runs that can be stopped and gone on with: cells, their store, and workers that share them.

A cell is one run of one method at one point. Its answer is one small file that appears whole or not at all, under a
name made from the point and the settings: a finished cell is never run again, a cell with other settings is another
cell.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import NoReturn

from shared.table import number
from tqdm import tqdm

Value = str | int | float


@dataclass(frozen=True)
class Cell:
    """One run of the table.

    Args:
        point (dict): What the cell is, by column of the table.
        settings (str): Everything else that the answer depends on.
        expected (float): About how many seconds of processor time it takes.
    """

    point: dict[str, Value]
    settings: str
    expected: float

    @cached_property
    def key(self) -> str:
        """The name of the cell's file."""
        text = json.dumps([self.point, self.settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @cached_property
    def version(self) -> str:
        """The settings, as short as a column of a table."""
        return hashlib.sha256(self.settings.encode()).hexdigest()[:12]


#: Gives the rows of a cell: a run may answer for several methods at once.
Job = Callable[[Cell], list[dict[str, Value]]]


class CellStore:
    """The answers of cells, one file each.

    Args:
        folder (Path): Where the files are; it is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.key}.json"

    def has(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return self._path(cell).exists()

    def read(self, cell: Cell) -> list[dict[str, Value]]:
        """The rows of a finished cell, each with its point."""
        rows: list[dict[str, Value]] = json.loads(self._path(cell).read_text(encoding="utf-8"))["rows"]
        return rows

    def write(self, cell: Cell, rows: list[dict[str, Value]]) -> None:
        """Keeps an answer under a temporary name and renames it."""
        content = {"rows": [{**cell.point, **row, "settings": cell.version} for row in rows], "settings": cell.settings}
        temporary = self._path(cell).with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(self._path(cell))

    def adopt(self, cells: Sequence[Cell], table: Path) -> int:
        """Takes the answers that are in a table of an earlier run, perhaps of another machine; says how many cells."""
        if not table.exists():
            return 0
        found: dict[tuple[str, ...], list[dict[str, Value]]] = {}
        names = [name for name in cells[0].point if name != "method"]  # a cell may answer for several methods
        with table.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.setdefault((*(row[name] for name in names), row["settings"]), []).append(
                    {name: number(text) for name, text in row.items()}
                )
        adopted = 0
        for cell in cells:
            rows = found.get((*(str(cell.point[name]) for name in names), cell.version))
            if rows and not self.has(cell):
                self.write(cell, rows)
                adopted += 1
        return adopted

    def forget(self, cell: Cell) -> None:
        """Drops an answer, so that the cell is run again."""
        self._path(cell).unlink(missing_ok=True)


#: Makes the job of a worker, from the number of threads that it may use.
MakeJob = Callable[[int], Job]


def run(cells: Sequence[Cell], make_job: MakeJob, store: CellStore, workers: int) -> dict[str, str]:
    """Runs the cells that are not finished in worker processes, with a bar that counts expected seconds.

    Args:
        cells (list): The cells, in the order in which they are wanted.
        make_job (callable): A function that can be imported, perhaps with arguments bound by :func:`functools.partial`;
            called once in every worker, where it loads the data.
        store (CellStore): Where the answers are kept.
        workers (int): The number of processes, which share the cores.

    Returns:
        The error messages of the cells that failed, by the text of their point.
    """
    from joblib import Parallel, delayed

    left = [cell for cell in cells if not store.has(cell)]
    threads = max(1, (os.cpu_count() or 1) // workers)
    failed: dict[str, str] = {}
    bar = tqdm(
        total=round(sum(cell.expected for cell in left), 1),
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} s of work [{elapsed}<{remaining}]",
        mininterval=1 if sys.stderr.isatty() else 60,  # a file holds one line per minute
    )
    team = Parallel(workers, return_as="generator_unordered", batch_size=1)
    with bar, _stop_on_terminate():
        for cell, error in team(delayed(_run_cell)(cell, make_job, threads, store) for cell in left):
            if error is not None:
                failed[json.dumps(cell.point)] = error
            bar.update(cell.expected)
    return failed


def _run_cell(cell: Cell, make_job: MakeJob, threads: int, store: CellStore) -> tuple[Cell, str | None]:
    """What a worker does: keeps the answer of a cell, or gives the error that it ended with."""
    bound = make_job if isinstance(make_job, functools.partial) else functools.partial(make_job)
    try:
        store.write(cell, _job(bound.func, (*bound.args, threads), tuple(bound.keywords.items()))(cell))
    except Exception:
        return cell, traceback.format_exc()
    return cell, None


@functools.cache
def _job(make_job: Callable[..., Job], arguments: tuple[object, ...], more: tuple[tuple[str, object], ...]) -> Job:
    """The job of this process, made for its first cell."""
    return make_job(*arguments, **dict(more))


def tell_left(cells: Sequence[Cell], store: CellStore) -> None:
    """Says how many cells there are, and about how long those that are left take."""
    left = [cell for cell in cells if not store.has(cell)]
    seconds = sum(cell.expected for cell in left)
    print(f"{len(cells)} cells, {len(left)} left: about {seconds:.0f} s of processor time", flush=True)


def run_or_stop(cells: Sequence[Cell], make_job: MakeJob, store: CellStore, workers: int) -> dict[str, str]:
    """:func:`run` for a command line: Ctrl-C ends the program with a word."""
    try:
        return run(cells, make_job, store, workers)
    except KeyboardInterrupt:
        print("\nstopped; finished cells are kept, the same command goes on from here")
        sys.exit(130)


def exit_with(failed: dict[str, str]) -> NoReturn:
    """Ends a command line: says which cells failed and why, which is no success."""
    for point, message in failed.items():
        print(f"failed: {point}\n{message}", file=sys.stderr)
    sys.exit(1 if failed else 0)


@contextmanager
def _stop_on_terminate() -> Iterator[None]:
    """A polite kill stops the run as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
