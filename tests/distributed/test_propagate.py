"""The command line on a folder of shards, by one process and by two."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed_problems import SharedProblem, moons
from rank_jobs import command, run_ranks

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

import pyarrow.dataset
import pyarrow.parquet

from tg_crepe import CrepePropagation
from tg_crepe.cli.app import run
from tg_crepe.distributed import Shard, write_shards


def shards(problem: SharedProblem, folder: Path, parts: int) -> Path:
    owner = problem.blocks(parts)
    write_shards(
        folder,
        (
            Shard.from_graph(problem.edge_index, problem.edge_weight, owner, rank, parts, problem.y, problem.mask)
            for rank in range(parts)
        ),
    )
    return folder


def expected_labels(problem: SharedProblem) -> list[str]:
    result = CrepePropagation().propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight)
    return [str(label) for label in result.label.tolist()]


def labels_in(table) -> list[str]:
    rows = table.to_pydict()
    assert sorted(rows) == ["certainty", "id", "label", "prob_0", "prob_1", "reached"]
    return [label for _, label in sorted(zip(rows["id"], rows["label"], strict=True))]


def test_one_process_needs_no_torchrun(tmp_path, capsys):
    problem = moons()
    folder = shards(problem, tmp_path / "shards", 1)
    assert run(["propagate", str(folder), "-o", str(tmp_path / "out")]) == 0
    assert "160 nodes on 1 process(es), 6 of them labelled, 0 out of reach" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_metadata", "part-00000.parquet"]
    assert labels_in(pyarrow.parquet.read_table(tmp_path / "out")) == expected_labels(problem)

    assert run(["propagate", str(folder), "-o", str(tmp_path / "out")]) == 2
    assert "exists and is not empty; --force replaces it" in capsys.readouterr().err
    assert run(["propagate", str(folder), "-o", str(tmp_path / "out"), "--force"]) == 0


@pytest.mark.parametrize("option", ["--labels", "--run"])
def test_what_shards_hold_already_is_refused(tmp_path, capsys, option):
    folder = shards(moons(), tmp_path / "shards", 1)
    assert run(["propagate", str(folder), "-o", str(tmp_path / "out"), option, "x.csv"]) == 2
    assert "they do not go with a folder of shards" in " ".join(capsys.readouterr().err.split())


def test_two_processes_write_a_table_each_and_a_view_or_fail_together(tmp_path):
    problem = moons()
    good = shards(problem, tmp_path / "good", 2)
    three = shards(problem, tmp_path / "three", 3)
    missing, damaged = (shards(problem, tmp_path / name, 2) for name in ("missing", "damaged"))
    (missing / "part-00001" / "col.npy").unlink()
    weight = damaged / "part-00001" / "weight.npy"
    weight.write_bytes(weight.read_bytes()[:-1] + b"x")
    lines = [
        ["propagate", str(folder), "-o", str(tmp_path / f"out-{folder.name}")]
        for folder in (good, three, missing, damaged)
    ]
    first, second = run_ranks(2, command, *lines)
    assert [code for code, _ in first] == [code for code, _ in second] == [0, 2, 2, 2]
    assert all(told == "" for _, told in second)  # one process speaks for all
    wanted = ("is for 3 process(es), got a world size of 2", "col.npy' is missing", "weight.npy' must have the sha256")
    for (_, told), part in zip(first[1:], wanted, strict=True):
        assert part in told
        assert "Traceback" not in told

    out = tmp_path / "out-good"
    assert sorted(path.name for path in out.iterdir()) == ["_metadata", "part-00000.parquet", "part-00001.parquet"]
    view = pyarrow.dataset.parquet_dataset(out / "_metadata").to_table()
    assert labels_in(view) == labels_in(pyarrow.parquet.read_table(out)) == expected_labels(problem)
    assert len(pyarrow.parquet.read_table(out / "part-00001.parquet")) == 80


@pytest.mark.slow
def test_torchrun_goes_on_after_a_kill(tmp_path):
    problem = moons(num_nodes=4000)
    folder = shards(problem, tmp_path / "shards", 2)
    out = tmp_path / "out"
    line = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    started = subprocess.Popen(
        [sys.executable, *line, "-m", "tg_crepe", "propagate", str(folder), "-o", str(out), "--timeout", "60"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stderr=subprocess.PIPE,
        text=True,
    )
    kept = out / "checkpoint"
    while not list(kept.glob("flow-*-step-*/manifest.json")) and started.poll() is None:
        time.sleep(0.005)
    workers = subprocess.run(
        ["pgrep", "-P", str(started.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(workers[-1]), signal.SIGKILL)
    _, told = started.communicate(timeout=600)
    assert started.returncode == 0, told
    assert re.search("restart|SIGKILL|exitcode", told)
    assert labels_in(pyarrow.parquet.read_table(out)) == expected_labels(problem)
    assert not kept.exists()
