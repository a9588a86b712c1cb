from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from tg_crepe.runs import RunFolder, RunResult, stage_run
from tg_crepe.runs.command_line import note_command_line
from tg_crepe.solvers.trace import Trace


def make_result(num_nodes: int = 6, **changes: np.ndarray) -> RunResult:
    values = {
        "ids": np.array([f"node {i}" for i in range(num_nodes)]),
        "label": np.arange(num_nodes) % 3,
        "prob": np.full((num_nodes, 3), 1 / 3, np.float32),
        "certainty": np.linspace(0, 1, num_nodes),
        "reached": np.ones(num_nodes, bool),
        "labelled": np.arange(num_nodes) < 3,
        "class_names": np.array(["cat", "Überraschung", "3"]),
    }
    return RunResult(**{**values, **changes})


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", "propagate", {"k": 20, "model": "crepe"}, seed=3)


def test_a_new_run_says_what_it_is(run):
    info = RunFolder.open(run.path).info
    assert (info["command"], info["settings"], info["seed"]) == ("propagate", {"k": 20, "model": "crepe"}, 3)
    assert info["status"] == "running"
    assert {"tg-crepe", "python", "torch", "numpy"} <= set(info["versions"])
    run.finish("converged")
    assert run.info["status"] == "converged"
    assert run.info["settings"] == info["settings"]


def test_a_run_knows_the_line_that_made_it(tmp_path):
    assert RunFolder.create(tmp_path / "python", "propagate", {}).info["command_line"] is None
    words = ["propagate", "my features.npy", "--labels", "~/l.csv"]
    with note_command_line("tg-crepe", words):
        run = RunFolder.create(tmp_path / "shell", "propagate", {})
    run.finish("converged")
    assert run.info["command_line"] == "tg-crepe propagate 'my features.npy' --labels '~/l.csv'"
    assert shlex.split(run.info["command_line"])[1:] == words
    assert RunFolder.create(tmp_path / "after", "propagate", {}).info["command_line"] is None


def test_settings_that_json_does_not_know_are_kept_as_text(tmp_path):
    run = RunFolder.create(tmp_path / "run", "train", {"root": tmp_path, "dtype": torch.float32})
    assert run.info["settings"] == {"root": str(tmp_path), "dtype": "torch.float32"}


def test_trace_round_trip_has_a_column_per_class(run):
    trace = Trace()
    for step in range(3):
        trace.append(step=step, ratio=torch.tensor([0.1, 0.2]) * step, gap=math.nan if step == 0 else 0.5)
    run.write_trace(trace)
    columns = run.read_trace()
    assert list(columns) == ["step", "ratio_0", "ratio_1", "gap"]
    np.testing.assert_allclose(columns["ratio_1"], [0, 0.2, 0.4], rtol=1e-6)
    np.testing.assert_array_equal(columns["step"], [0, 1, 2])
    assert np.isnan(columns["gap"][0])


def test_a_trace_that_holds_no_numbers_names_its_file(run):
    (run.path / "trace.csv").write_text("0\n:")  # found by the long part of tests/fuzz
    with pytest.raises(ValueError, match=r"trace\.csv' cannot be used: its cells must be numbers"):
        run.read_trace()


def test_a_trace_without_rows_is_read_as_one(run):
    run.write_trace(Trace())
    assert run.read_trace() == {}


def test_metrics_grow_by_rows_and_by_columns(run):
    run.append_metrics(epoch=0, loss=1.5, note="warm-up, first")
    run.append_metrics(epoch=1, loss=None, error=0.25)
    assert run.read_metrics() == [
        {"epoch": 0, "loss": 1.5, "note": "warm-up, first", "error": None},
        {"epoch": 1, "loss": None, "note": None, "error": 0.25},
    ]


def test_result_round_trip(run):
    flow = {"flow_node": np.array([1, 4]), "flow_time": np.array([0.5, 1.0]), "flow_u": np.ones((2, 2, 3), np.float16)}
    for result in (make_result(), make_result(label=np.eye(6, 3, dtype=int), **flow)):
        run.write_result(result)
        read = RunFolder.open(run.path).read_result()
        for name, value in vars(result).items():
            if value is None:
                assert getattr(read, name) is None
            else:
                np.testing.assert_array_equal(getattr(read, name), value)
                assert getattr(read, name).dtype == value.dtype


def test_graph_and_thumbnails_round_trip(run):
    edge_index, edge_weight = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 0.25])
    run.write_graph(edge_index, edge_weight, 4)
    edges, weight, count = run.read_graph()
    np.testing.assert_array_equal(edges, edge_index)
    np.testing.assert_array_equal(weight, edge_weight)
    assert (edges.dtype, count) == (np.int64, 4)
    images = torch.randint(256, (2, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    run.write_thumbnails(torch.tensor([3, 1]), images)
    node, pixels = run.read_thumbnails()
    np.testing.assert_array_equal(node, [3, 1])
    np.testing.assert_array_equal(pixels, images)
    assert run.has("thumbnails.npz")
    assert not run.has("result.npz")
    assert run.checkpoint.is_dir()


def test_an_earlier_run_is_kept_unless_forced(run):
    run.append_metrics(epoch=0)
    (run.checkpoint / "last.pt").write_bytes(b"weights")
    (run.path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="earlier run; --force replaces it"):
        RunFolder.create(run.path, "train", {})
    assert run.has("metrics.csv")
    RunFolder.create(run.path, "train", {}, force=True)
    assert sorted(path.name for path in run.path.iterdir()) == ["notes.txt", "run.json"]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_no_run_is_never_touched(tmp_path, force):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="left alone"):
        RunFolder.create(tmp_path, "train", {}, force=force)
    with pytest.raises(FileExistsError, match="is a file"):
        RunFolder.create(tmp_path / "thesis.tex", "train", {}, force=force)
    (tmp_path / "run.json").write_text('{"program": "other"}')
    with pytest.raises((ValueError, FileExistsError)):
        RunFolder.create(tmp_path, "train", {}, force=force)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "thesis.tex"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not whole JSON"),
        ("[]", "not written by tg-crepe"),
        ('{"program": "other"}', "not written by tg-crepe"),
        ('{"program": "tg-crepe", "format": 99}', "its format is 99"),
    ],
)
def test_a_foreign_folder_is_named(tmp_path, content, problem):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=problem) as error:
        RunFolder.open(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_missing_files_are_named(tmp_path, run):
    with pytest.raises(FileNotFoundError, match="nowhere' is not a folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"'run\.json' is missing"):
        RunFolder.open(tmp_path)
    for read in (run.read_trace, run.read_metrics, run.read_result, run.read_graph, run.read_thumbnails):
        with pytest.raises(FileNotFoundError, match="not a whole run"):
            read()


def test_damaged_files_are_named(run):
    run.write_result(make_result())
    path = run.path / "result.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"result\.npz' cannot be used"):
        run.read_result()
    run.write_result(make_result(certainty=np.zeros(5)))
    with pytest.raises(ValueError, match="'certainty' must be of shape"):
        run.read_result()
    (run.path / "metrics.csv").write_text("epoch,loss\n0\n")
    with pytest.raises(ValueError, match="row 2 has 1 cells"):
        run.read_metrics()


def test_pickled_objects_are_neither_written_nor_read(run):
    with pytest.raises(ValueError, match="pickle"):
        run.write_result(make_result(ids=np.array([{}] * 6, dtype=object)))
    assert not run.has("result.npz")
    with (run.path / "graph.npz").open("wb") as file:
        np.savez(file, edge_index=np.array([{}], dtype=object), edge_weight=np.ones(1), num_nodes=2)
    with pytest.raises(ValueError, match="cannot be used: it holds Python objects"):
        run.read_graph()


def test_an_interrupted_file_leaves_the_old_one(run, monkeypatch):
    run.append_metrics(epoch=0)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("csv.DictWriter.writerows", fail)
    with pytest.raises(KeyboardInterrupt):
        run.append_metrics(epoch=1)
    monkeypatch.undo()
    assert run.read_metrics() == [{"epoch": 0}]
    assert sorted(path.name for path in run.path.iterdir()) == ["metrics.csv", "run.json"]


def test_a_staged_run_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), stage_run(target, "propagate", {}) as run:  # noqa: PT012
        run.write_result(make_result())
        assert not target.exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    for seed in (1, 2):
        with stage_run(target, "propagate", {}, seed, force=True) as run:
            run.finish("converged")
    assert json.loads((target / "run.json").read_text())["seed"] == 2
    with pytest.raises(KeyboardInterrupt), stage_run(target, "propagate", {}, 3, force=True):
        raise KeyboardInterrupt
    assert RunFolder.open(target).info["seed"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_earlier_run_that_cannot_be_put_back_is_not_removed(tmp_path, monkeypatch):
    target = tmp_path / "run"
    with stage_run(target, "propagate", {}, 1):
        pass
    replace, failures = Path.replace, []

    def fail_at_the_end(path, goal):
        if goal != target:
            return replace(path, goal)
        failures.append(path)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Path, "replace", fail_at_the_end)
    with pytest.raises(OSError, match="the disk is gone"), stage_run(target, "propagate", {}, 2, force=True):
        pass
    monkeypatch.undo()
    assert len(failures) == 2
    (kept,) = tmp_path.iterdir()
    assert RunFolder.open(kept).info["seed"] == 1


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", ".run.json.123.tmp"])
def test_what_a_system_or_a_killed_command_left_does_not_keep_a_run_from_being_replaced(tmp_path, name):
    target = tmp_path / "run"
    with stage_run(target, "propagate", {}, 1):
        pass
    (target / name).write_bytes(b"")
    with stage_run(target, "propagate", {}, 2, force=True):
        pass
    assert RunFolder.open(target).info["seed"] == 2


def test_a_cell_without_end_is_a_damaged_table(run):
    (run.path / "trace.csv").write_text("step\n" + "1" * 200_000 + "\n")
    with pytest.raises(ValueError, match="it is not a whole csv file"):
        run.read_trace()
