from __future__ import annotations

import csv
import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

from tg_crepe.cli.app import run
from tg_crepe.runs import RunFolder, RunResult

COMMANDS = ("demo", "label", "propagate", "train", "report", "label-next", "doctor")


@pytest.fixture
def finished(tmp_path) -> Path:
    """A run of 40 nodes on a ring: two classes, two labels, doubt in the middle between them."""
    folder = tmp_path / "run"
    first = np.concatenate([np.full(20, 0.9), np.linspace(0.9, 0.1, 20)])
    run = RunFolder.create(folder, "propagate", {})
    run.write_result(
        RunResult(
            ids=np.array([f"n{i}" for i in range(40)]),
            label=np.where(first > 0.5, 0, 1),
            prob=np.stack([first, 1 - first], axis=1),
            certainty=np.abs(2 * first - 1),
            reached=np.ones(40, bool),
            labelled=np.isin(np.arange(40), [0, 39]),
            class_names=np.array(["left", "right, far"]),
        )
    )
    here = np.arange(40)
    run.write_graph(np.stack([here, (here + 1) % 40]), np.ones(40, np.float32), 40)
    return folder


def test_label_next_lists_ids_guesses_and_certainties(finished, capsys):
    assert run(["label-next", str(finished), "-n", "5", "--strategy", "margin"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["id"] for row in rows[:2]} == {"n29", "n30"}
    assert {row["guess"] for row in rows} == {"left", "right, far"}
    assert {(row["label"], row["asked"]) for row in rows} == {("", "label-next")}
    assert len(rows) == 5
    assert all(float(row["certainty"]) < 0.3 for row in rows)


def test_label_next_as_json_and_to_a_file(finished, tmp_path, capsys):
    assert run(["label-next", str(finished), "-n", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [sorted(row) for row in rows] == [["asked", "certainty", "guess", "id", "label"]] * 3
    out = tmp_path / "next.csv"
    assert run(["label-next", str(finished), "-n", "3", "-o", str(out)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"written: {out}, 3 rows"
    assert told[1].endswith(f"--labels {out}")  # what comes next
    with out.open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in rows]


def test_label_next_gives_what_is_left(finished, capsys):
    assert run(["label-next", str(finished), "-n", "100"]) == 0
    ids = [row["id"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert len(set(ids)) == 38
    assert not {"n0", "n39"} & set(ids)


def test_report_calls_the_page_or_says_that_there_is_none(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tg_crepe.report", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "page.html"
    assert run(["report", str(finished), "-o", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    page = types.ModuleType("tg_crepe.report")
    page.write_report = lambda folder, path: path.write_text(str(folder.path))
    monkeypatch.setitem(sys.modules, "tg_crepe.report", page)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: page)
    assert run(["report", str(finished), "-o", str(out)]) == 0
    assert out.read_text() == str(finished)
    assert run(["report", str(finished), "-o", str(out)]) == 2
    assert "--force" in capsys.readouterr().err


def test_doctor_tells_versions_extras_and_a_passed_self_test(monkeypatch, capsys):
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"tg-crepe", "python", "cores", "torch_threads", "packages", "extras", "self_test"} <= set(found)
    assert {"torch", "numpy"} <= set(found["packages"])
    assert all(test["passed"] for test in found["self_test"])
    imported = []
    monkeypatch.setattr("tg_crepe.cli.doctor.available", imported.append)
    assert run(["doctor", "--quick"]) == 0
    assert imported == []  # what is imported takes seconds each
    text = capsys.readouterr().out
    assert "extra cli: typer" in text
    assert "self-test" not in text


def test_doctor_knows_every_extra_and_its_packages(capsys):
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 brings it")
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert run(["doctor", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["extras"]
    extras = {name: {one.split(">")[0] for one in needs} for name, needs in project["optional-dependencies"].items()}
    others = {"all", "test", "docs", "bench", "dev"}
    assert set(told) == set(extras) - others
    everywhere = {package for packages in told.values() for package in packages}
    assert set().union(*(extras[name] for name in told)) == everywhere


def test_doctor_that_finds_a_fault_ends_with_1(monkeypatch, capsys):
    monkeypatch.setattr("tg_crepe.cli.doctor._MOST_ERROR", -1.0)
    assert run(["doctor"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command, capsys):
    assert run([command, "--help"]) == 0
    assert f"Example: tg-crepe {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell, monkeypatch, capsys):
    monkeypatch.setenv("_TG_CREPE_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit) as end:
        run([])
    assert end.value.code == 0
    assert "_TG_CREPE_COMPLETE" in capsys.readouterr().out


def test_completion_offers_the_commands(monkeypatch, capsys):
    monkeypatch.setenv("_TG_CREPE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tg-crepe ")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        run([])
    assert set(COMMANDS) <= set(capsys.readouterr().out.split())


def test_train_runs_keeps_its_folder_and_resumes(tmp_path, capsys):
    for package in ("accelerate", "torchmetrics", "sklearn"):
        pytest.importorskip(package)
    line = ["train", "digits", "--epochs", "1", "--num-labels", "2", "--energy", "none", "--run", str(tmp_path / "run")]
    assert run([*line, "--json"]) == 0
    captured = capsys.readouterr()
    final = json.loads(captured.out)["final"]
    assert 0 < final["error"] < 1
    assert "epoch 1/1" in captured.err
    assert RunFolder.open(tmp_path / "run").info["command"] == "train"
    assert run(line) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert run([*line, "--resume"]) == 0
    assert "test error" in capsys.readouterr().out
    assert run([*line, "--force"]) == 0


def test_train_passes_soft_targets_on(tmp_path):
    for package in ("accelerate", "torchmetrics", "sklearn"):
        pytest.importorskip(package)
    line = ["train", "digits", "--epochs", "1", "--num-labels", "2", "--energy", "network"]
    for name, options in {"hard": [], "soft": ["--soft-targets"]}.items():
        assert run([*line, *options, "--run", str(tmp_path / name)]) == 0
        assert RunFolder.open(tmp_path / name).info["settings"]["soft_targets"] is bool(options)


def test_train_asks_networks_of_half_the_labels(tmp_path):
    for package in ("accelerate", "torchmetrics", "sklearn"):
        pytest.importorskip(package)
    line = ["train", "digits", "--epochs", "1", "--num-labels", "2", "--energy", "network"]
    sure = []
    for name, options in {"plain": [], "judged": ["--hold-out"]}.items():
        assert run([*line, *options, "--run", str(tmp_path / name)]) == 0
        assert RunFolder.open(tmp_path / name).info["settings"]["hold_out"] is bool(options)
        sure.append(RunFolder.open(tmp_path / name).read_result().certainty)
    assert not np.array_equal(*sure)
