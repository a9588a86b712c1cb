from __future__ import annotations

import json
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

#: Runs a command line per case, in which one function says that it was reached and then takes for ever; there the
#: process gets its signal. The writers do half of their work first. One process imports everything and forks the rest:
#: each of them would need seconds for it.
PROGRAM = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
from importlib import import_module
from pathlib import Path
import pyarrow.csv, tg_crepe.cli._propagation, tg_crepe.models
from tg_crepe.cli.app import run

def wait(*arguments, **options):
    for argument in arguments:
        if isinstance(argument, Path):
            argument.write_bytes(b"half")
        elif hasattr(argument, "write"):
            argument.write(b"half")
            argument.flush()
    os.write(tell, b".")
    time.sleep(600)

codes = []
for folder, function, number in json.loads(sys.argv[1]):
    reached, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open(folder + ".err", os.O_CREAT | os.O_WRONLY), 2)
        module, name = function.rsplit(".", 1)
        setattr(import_module(module), name, wait)
        sys.exit(run(sys.argv[2:]))
    os.close(tell)
    if os.read(reached, 1):  # nothing where the child ended by itself
        os.kill(child, number)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
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
    """All cases, each in its folder with an old table: the folder, the exit code and stderr."""
    folders = [tmp_path_factory.mktemp(moment) for moment, _ in CASES]
    for folder in folders:
        write_clusters(folder)
        (folder / "out.csv").write_text("old")
    cases = [(str(folder), MOMENTS[moment], number) for folder, (moment, number) in zip(folders, CASES, strict=True)]
    command = [sys.executable, "-c", PROGRAM, json.dumps(cases), *LINE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {
        case: (folder, code, Path(f"{folder}.err").read_text())
        for case, folder, code in zip(CASES, folders, json.loads(done.stdout), strict=True)
    }


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
