from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_inputs import write_clusters

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

from tg_crepe.cli.app import run

#: Runs a command line in which one function says that it was reached, and then takes for ever. The writers do half of
#: their work first.
PROGRAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from importlib import import_module
module, name = sys.argv[1].rsplit(".", 1)

def wait(*arguments, **options):
    for argument in arguments:
        if isinstance(argument, Path):
            argument.write_bytes(b"half")
        elif hasattr(argument, "write"):
            argument.write(b"half")
            argument.flush()
    print("reached", flush=True)
    time.sleep(600)

setattr(import_module(module), name, wait)
from tg_crepe.cli.app import run
sys.exit(run(sys.argv[2:]))
"""

MOMENTS = {
    "reading": "tg_crepe.cli._inputs.read_labels",
    "solving": "tg_crepe.cli._propagation.solve",
    "table": "pyarrow.csv.write_csv",
    "run": "numpy.savez",
}
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
CASES = [
    ("reading", signal.SIGINT),
    ("solving", signal.SIGTERM),
    ("table", signal.SIGTERM),
    ("table", signal.SIGKILL),
    ("run", signal.SIGKILL),
]
LINE = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "out.csv", "--run", "run", "-k", "8", "--force"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[tuple[str, int], tuple[Path, int, str]]:
    """All cases at once, each in its folder with an old table: the folder, the exit code and stderr."""
    started = {}
    for case in CASES:
        folder = tmp_path_factory.mktemp(case[0])
        write_clusters(folder)
        (folder / "out.csv").write_text("old")
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, MOMENTS[case[0]], *LINE],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        started[case] = (folder, process)
    answers = {}
    for case, (folder, process) in started.items():
        assert process.stdout is not None
        assert process.stdout.readline() == "reached\n", process.communicate()[1]
        process.send_signal(case[1])
        _, err = process.communicate(timeout=120)
        answers[case] = (folder, process.returncode, err)
    return answers


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1].name}")
def test_an_interrupted_command_leaves_nothing_half_under_a_final_name(case, ended):
    moment, number = case
    folder, code, err = ended[case]
    assert code == SIGNALS[number]
    assert "Traceback" not in err
    names = {path.name for path in folder.iterdir()}
    hidden = {name for name in names if name.startswith(".")}
    assert names - hidden == {"features.npz", "labels.csv", "out.csv"}  # no run: it was not whole
    if number != signal.SIGKILL:  # nobody can clean up after that
        assert not hidden
    table = (folder / "out.csv").read_text()
    if moment == "run":
        assert len(table.splitlines()) == 61  # the table was whole before
    else:
        assert table == "old"


@pytest.mark.parametrize("moment", ["reading", "solving", "table", "run"])
def test_ctrl_c_at_any_moment_ends_quietly(moment, table, monkeypatch, capsys):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(table)
    monkeypatch.setattr(MOMENTS[moment], interrupt)
    assert run(LINE) == 130
    assert capsys.readouterr().err.strip() == ""
    left = {"features.npz", "labels.csv"} | ({"out.csv"} if moment == "run" else set())
    assert {path.name for path in table.iterdir()} == left
