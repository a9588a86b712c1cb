"""A table of many small runs that can be stopped and gone on with: cells, their store, and workers that share them.

A cell is one run of one method at one point. Its answer is one small file that appears whole or not at all, under a
name made from the point and the settings: a finished cell is never run again, a cell with other settings is another
cell. A worker claims a cell by a lock file, so any number of processes, started together or not, share the work.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType

from tqdm import tqdm

Value = str | int | float

#: A lock of this age in seconds is nobody's: no cell takes as long. It frees cells whose owner ran on another host, or
#: whose number was given to another process.
_STALE = 3600.0

#: Seconds between two looks at cells that others have claimed, and of the parent at its workers.
_PAUSE = 0.5


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
    """The answers of cells, one file each, and who works at what.

    Args:
        folder (Path): Where the files are; it is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell: Cell, ending: str) -> Path:
        return self.folder / f"{cell.key}.{ending}"

    def has(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return self._path(cell, "json").exists()

    def read(self, cell: Cell) -> list[dict[str, Value]]:
        """The rows of a finished cell, each with its point."""
        rows: list[dict[str, Value]] = json.loads(self._path(cell, "json").read_text(encoding="utf-8"))["rows"]
        return rows

    def write(self, cell: Cell, rows: list[dict[str, Value]]) -> None:
        """Keeps an answer under a temporary name and renames it."""
        content = {"rows": [{**cell.point, **row, "settings": cell.version} for row in rows], "settings": cell.settings}
        temporary = self._path(cell, f"{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(self._path(cell, "json"))

    def adopt(self, cells: Sequence[Cell], table: Path) -> int:
        """Takes the answers that are in a table of an earlier run, perhaps of another machine; says how many cells."""
        if not table.exists():
            return 0
        found: dict[tuple[str, ...], list[dict[str, Value]]] = {}
        names = [name for name in cells[0].point if name != "method"]  # a cell may answer for several methods
        with table.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.setdefault((*(row[name] for name in names), row["settings"]), []).append(
                    {name: _number(text) for name, text in row.items()}
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
        self._path(cell, "json").unlink(missing_ok=True)

    def failure(self, cell: Cell) -> str | None:
        """What went wrong with the cell in this run."""
        path = self._path(cell, "failed")
        return path.read_text(encoding="utf-8") if path.exists() else None

    def write_failure(self, cell: Cell, message: str) -> None:
        """Keeps an error, so that no other worker tries the same; the next run does."""
        self._path(cell, "failed").write_text(message, encoding="utf-8")

    def forget_failure(self, cell: Cell) -> None:
        """Lets a failed cell be tried again."""
        self._path(cell, "failed").unlink(missing_ok=True)

    def ended(self) -> set[str]:
        """The keys of all cells that are finished or failed, by one look at the folder."""
        return {name.partition(".")[0] for name in os.listdir(self.folder) if name.endswith((".json", ".failed"))}

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Whether the cell is this process's own for the length of the context."""
        path = self._path(cell, "lock")
        mine = _take(path)
        if not mine and _abandoned(path):
            # Two processes may come here at once and both run the cell: that costs time and gives the same answer.
            path.unlink(missing_ok=True)
            mine = _take(path)
        try:
            yield mine
        finally:
            if mine:
                path.unlink(missing_ok=True)


def _number(text: str) -> Value:
    """A cell of a csv file as the number that it is, or as it stands."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _take(path: Path) -> bool:
    """Makes a lock file that says whose it is, unless there is one."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(file, "w") as stream:
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "time": time.time()}, stream)
    return True


def _abandoned(path: Path) -> bool:
    """Whether the owner of a lock has died."""
    try:
        age = time.time() - path.stat().st_mtime
        owner = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False  # given back just now
    except json.JSONDecodeError:
        return age > _STALE  # about to be written, unless the owner died over it
    if time.time() - owner["time"] > _STALE:
        return True
    if owner["host"] != socket.gethostname():
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # another user's process
    return False


def work(cells: Sequence[Cell], job: Job, store: CellStore, go_on: Callable[[], bool] = lambda: True) -> None:
    """Runs every cell that is neither finished nor failed, and waits for those that others have claimed.

    Args:
        cells (list): The cells, in the order in which they are wanted.
        job (callable): Gives the answer of a cell.
        store (CellStore): Where the answers are kept.
        go_on (callable, optional): Asked before every cell. (default: always :obj:`True`)
    """
    waiting = list(cells)
    while waiting:
        claimed = []
        for cell in waiting:
            if not go_on():
                return
            with store.claim(cell) as mine:
                if store.has(cell) or store.failure(cell) is not None:
                    continue
                if not mine:
                    claimed.append(cell)
                    continue
                try:
                    rows = job(cell)
                except Exception:
                    store.write_failure(cell, traceback.format_exc())
                else:
                    store.write(cell, rows)
        if len(claimed) == len(waiting):
            time.sleep(_PAUSE)
        waiting = claimed


def _worker(cells: Sequence[Cell], make_job: Callable[[], Job], folder: Path, parent: int) -> None:
    """The body of a worker process; it ends by itself when its parent is gone."""
    with suppress(KeyboardInterrupt), _stop_on_terminate():  # the parent says it
        work(cells, make_job(), CellStore(folder), lambda: os.getppid() == parent)


def run(cells: Sequence[Cell], make_job: Callable[[], Job], store: CellStore, workers: int) -> dict[str, str]:
    """Runs the cells in worker processes, with a bar that counts expected seconds.

    Args:
        cells (list): The cells, in the order in which they are wanted.
        make_job (callable): Called once in every worker, importable from there; loads the data.
        store (CellStore): Where the answers are kept.
        workers (int): The number of processes.

    Returns:
        The error messages of the cells that failed, by the text of their point.
    """
    for cell in cells:
        store.forget_failure(cell)
    left = {cell.key: cell for cell in cells if not store.has(cell)}
    if not left:
        return {}
    # A fork would inherit the state of thread pools without their threads.
    context = multiprocessing.get_context("spawn")
    team = [
        context.Process(target=_worker, args=(list(left.values()), make_job, store.folder, os.getpid()))
        for _ in range(workers)
    ]
    failed: dict[str, str] = {}
    bar = tqdm(
        total=round(sum(cell.expected for cell in left.values()), 1),
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} s of work [{elapsed}<{remaining}{postfix}]",
        mininterval=1 if sys.stderr.isatty() else 60,  # a file holds a line a minute
    )
    with bar, _stop_on_terminate():
        try:
            for process in team:
                process.start()
            while left:
                alive = any(process.is_alive() for process in team)  # before the look, so that nothing is missed
                for key in store.ended() & left.keys():
                    cell = left.pop(key)
                    message = store.failure(cell)
                    if message is not None:
                        failed[json.dumps(cell.point)] = message
                    bar.update(cell.expected)
                bar.set_postfix_str(f"{len(left)} cells left", refresh=False)
                if left and not alive:
                    raise RuntimeError("the workers ended before the work did, see their messages above")
                time.sleep(_PAUSE if left else 0)
        except KeyboardInterrupt:
            for process in team:
                if process.pid is not None and process.is_alive():
                    process.terminate()  # SIGINT is ignored below a shell that runs things in the background
            raise
        finally:
            for process in team:
                if process.pid is not None:
                    process.join()
    return failed


def run_or_stop(
    cells: Sequence[Cell], make_job: Callable[[int], Job], store: CellStore, workers: int
) -> dict[str, str]:
    """:func:`run` for a command line: workers share the cores, and Ctrl-C ends the program with a word.

    Args:
        cells (list): The cells, in the order in which they are wanted.
        make_job (callable): As of :func:`run`; it is given the number of threads that a worker may use.
        store (CellStore): Where the answers are kept.
        workers (int): The number of processes.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(threads)  # read by the workers when they start
    try:
        return run(cells, functools.partial(make_job, threads), store, workers)
    except KeyboardInterrupt:
        print("\nstopped; finished cells are kept, the same command goes on from here")
        sys.exit(130)


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
