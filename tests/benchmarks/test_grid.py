"""The resumable runner: whole cells only, none twice, none lost with its worker."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from shared import machine
from shared.grid import Cell, CellStore

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# A run of six cells by two workers, each cell a note in a file and a nap.
SCRIPT = """
import functools, os, sys, time
from pathlib import Path
sys.path.insert(0, {benchmarks!r})
from shared.grid import Cell, CellStore, run

def nap(folder, seconds, cell):
    with open(folder / "begun", "a") as file:
        file.write(f"{{cell.point['seed']}} {{os.getpid()}}\\n")
    time.sleep(seconds)
    if cell.point["seed"] == 5:
        raise ValueError("no answer")
    return [{{"error": float(cell.point["seed"])}}]

def make_job(folder, seconds, threads):
    return functools.partial(nap, folder, seconds)

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cells = [Cell({{"seed": seed}}, "", 1.0) for seed in range(6)]
    print(run(cells, functools.partial(make_job, folder, float(sys.argv[2])), CellStore(folder / "cells"), 2))
"""


def cells(count: int, settings: str = "") -> list[Cell]:
    return [Cell({"method": "m", "seed": seed}, settings, 1.0) for seed in range(count)]


def answer(cell: Cell) -> list[dict[str, str | int | float]]:
    return [{"error": float(cell.point["seed"])}]


def fill(store: CellStore, some: list[Cell], job=answer) -> None:
    for cell in some:
        store.write(cell, job(cell))


def test_answer_has_the_point_of_its_cell(tmp_path):
    store, cell = CellStore(tmp_path), cells(3)[2]
    fill(store, [cell])
    [row] = store.read(cell)
    assert (row["error"], row["seed"], row["method"]) == (2, 2, "m")
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_other_settings_make_another_cell(tmp_path):
    store = CellStore(tmp_path)
    fill(store, cells(1, "alpha = 1"))
    assert not store.has(cells(1, "alpha = 2")[0])


def test_one_run_may_answer_for_several_rows(tmp_path):
    store = CellStore(tmp_path)
    fill(store, cells(1), lambda cell: [{"method": name, "error": 0.0} for name in ("a", "b")])
    assert [row["method"] for row in store.read(cells(1)[0])] == ["a", "b"]


def test_forgotten_cell_is_run_again(tmp_path):
    store = CellStore(tmp_path)
    fill(store, cells(1))
    store.forget(cells(1)[0])
    assert not store.has(cells(1)[0])


def start(tmp_path: Path, seconds: float) -> subprocess.Popen:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(benchmarks=str(BENCHMARKS)))
    command = [sys.executable, str(script), str(tmp_path), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_workers_share_the_cells_and_report_failures(tmp_path):
    output, _ = start(tmp_path, 0.3).communicate(timeout=60)
    begun = [line.split() for line in (tmp_path / "begun").read_text().splitlines()]
    assert sorted(seed for seed, _ in begun) == list("012345")  # each once
    assert "no answer" in output
    assert len(list((tmp_path / "cells").glob("*.json"))) == 5


def test_stopped_run_goes_on_where_it_was(tmp_path):
    process = start(tmp_path, 1.5)
    folder = tmp_path / "cells"
    limit = time.monotonic() + 50
    while not list(folder.glob("*.json")) and time.monotonic() < limit:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    finished = {path.name for path in folder.glob("*.json")}
    assert 0 < len(finished) < 5
    assert {path.suffix for path in folder.iterdir()} == {".json"}
    before = {name: (folder / name).stat().st_mtime_ns for name in finished}
    start(tmp_path, 0.0).communicate(timeout=60)
    assert len(list(folder.glob("*.json"))) == 5
    assert before == {name: (folder / name).stat().st_mtime_ns for name in finished}


def test_cells_of_a_table_are_adopted_where_their_settings_agree(tmp_path):
    first = CellStore(tmp_path / "first")

    def both(cell):  # one run that answers for two rows
        return [{"error": 1.5, "choice": ""}, {"method": "other", "error": 2.0, "choice": "3"}]

    fill(first, cells(2, "a"), both)
    rows = [row for cell in cells(2, "a") for row in first.read(cell)]
    table = tmp_path / "table.csv"
    machine.write_csv(rows, table)
    second = CellStore(tmp_path / "second")
    assert second.adopt(cells(3, "a"), table) == 2
    assert [row for cell in cells(2, "a") for row in second.read(cell)] == [
        {**row, "choice": 3 if row["choice"] else ""} for row in rows
    ]
    assert second.adopt(cells(3, "a"), table) == 0
    assert second.adopt(cells(3, "b"), table) == 0
    assert second.adopt(cells(3, "a"), tmp_path / "missing.csv") == 0
