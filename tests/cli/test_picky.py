"""What spreadsheets, file systems and people in a hurry hand in: as it was meant, or one line before any work."""

import csv
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import cluster_points

from tg_crepe.cli.app import run

X, Y, IDS = cluster_points()
NAMES = ("red", "green", "blue")
PROPAGATE = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "p.csv"]
ROWS = [(IDS[i], NAMES[Y[i]]) for i in range(6)]


@pytest.fixture
def here(table, monkeypatch):
    monkeypatch.chdir(table)
    return table


def lines(rows, mark=","):
    return "\n".join(mark.join(row) for row in rows) + "\n"


def labels_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    "text",
    [
        lines([("id", "label"), *ROWS]).replace("\n", "\r\n"),
        lines([("id", "label"), *ROWS]).replace("\n", "\r"),
        lines([("ID", "Label"), *ROWS]),
        "sep=;\r\n" + lines([("id", "label"), *ROWS], ";"),
        lines([(*row, "", "") for row in [("id", "label"), *ROWS]]) + ",,,\n",
        lines([("id", "label"), *((name, f"{label}\u200b") for name, label in ROWS)]),
        lines([("id", "label"), *((name, f'"{label}\n"') for name, label in ROWS)]),
    ],
    ids=["Windows", "old Mac", "capitals", "separator line", "empty columns", "no width", "line end in a cell"],
)
def test_tables_of_spreadsheets_are_read_as_they_were_meant(here, text):
    (here / "labels.csv").write_bytes(text.encode())
    assert run(PROPAGATE) == 0
    assert set(labels_of("p.csv").values()) == set(NAMES)


def test_letters_that_look_the_same_are_the_same(here, capsys):
    """File systems of Macs store é as e and an accent."""
    names = np.array([f"é{i:02d}" for i in range(60)])
    apart = [unicodedata.normalize("NFD", str(name)) for name in names]
    np.savez(here / "features.npz", x=X, ids=names)
    classes = ("grün", "rot", unicodedata.normalize("NFD", "grün"))
    rows = [(apart[i], classes[i % 3]) for i in range(6)]
    (here / "labels.csv").write_text(lines([("id", "label"), *rows]), encoding="utf-8")
    assert run(PROPAGATE) == 0
    found = labels_of("p.csv")
    assert set(found) == set(names)
    assert set(found.values()) == {"grün", "rot"}


REFUSED = {
    "a spreadsheet": (lambda: Path("labels.csv").write_bytes(b"PK\x03\x04" + bytes(60)), PROPAGATE, "save it as CSV"),
    "blank lines": (lambda: Path("labels.csv").write_text("\n\n"), PROPAGATE, "it is empty"),
    "a folder": (None, [*PROPAGATE[:3], ".", *PROPAGATE[4:]], "is a folder: name the file in it"),
    "a run below a file": (None, [*PROPAGATE, "--run", "labels.csv/run"], "labels.csv' is a file, not a folder"),
    "a run with the name of the table": (None, [*PROPAGATE, "--run", "p.csv"], "another name than --out"),
    "zeros that a spreadsheet dropped": (
        lambda: np.savez("features.npz", x=X, ids=np.array([f"{i:04d}" for i in range(60)])),
        PROPAGATE,
        "did a spreadsheet drop the zeros of '0007'?",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_taken_is_one_line_before_any_work(here, capsys, case):
    prepare, line, expected = REFUSED[case]
    if "zeros" in case:
        (here / "labels.csv").write_text("id,label\n7,red\n8,green\n")
    if prepare is not None:
        prepare()
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    assert run(line) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_where_all_is_labelled_there_is_nothing_to_ask_or_to_warn_of(here, capsys):
    rows = [(name, NAMES[y]) for name, y in zip(IDS, Y, strict=True)]
    (here / "labels.csv").write_text(lines([("id", "label"), *rows]))
    assert run([*PROPAGATE, "--run", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert run(["label-next", "run", "-o", "next.csv"]) == 0
    assert "no row: all are labelled already" in capsys.readouterr().out
    assert (here / "next.csv").read_text() == "id,label,guess,certainty,asked\n"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are Unix's")
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(here):
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
        "from tg_crepe.cli import main; sys.argv = ['tg-crepe', *sys.argv[1:]]; main()"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, *PROPAGATE, "--run", "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr.splitlines()[-1]
    assert {path.name for path in here.iterdir()} == {"features.npz", "labels.csv"}
