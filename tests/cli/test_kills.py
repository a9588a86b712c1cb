"""Every command that writes, killed at random moments: nothing half-written, and the same line goes on to the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="all commands are killed, so all extras are needed")
pytest.importorskip("pyarrow", reason="all commands are killed, so all extras are needed")
pytest.importorskip("timm", reason="all commands are killed, so all extras are needed")
pytest.importorskip("accelerate", reason="all commands are killed, so all extras are needed")
pytest.importorskip("jinja2", reason="all commands are killed, so all extras are needed")
if not hasattr(os, "fork"):
    pytest.skip("no fork on this system", allow_module_level=True)

import timm
from kills import COMMANDS, SIGNALS
from safetensors.torch import save_file

KILLS = Path(__file__).parents[1] / "kills.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    import torch

    folder = tmp_path_factory.mktemp("models")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", pretrained=False).state_dict(), folder / "test_resnet.safetensors")
    path = os.pathsep.join([str(KILLS.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "TG_CREPE_MODELS": str(folder), "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}


def killed(folder, environment, *options) -> list[dict]:
    line = [sys.executable, str(KILLS), str(folder / "kills"), *map(str, options)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=5000)
    rows = [json.loads(row) for row in done.stdout.splitlines() if row.startswith("{")]
    assert done.returncode == any(row["problems"] for row in rows), done.stderr
    return rows


def check(rows, commands, signals, count):
    assert [(row["command"], row["signal"]) for row in rows] == [(c, s) for c in commands for s in signals]
    assert all(row["killed"] == count or row["ended before"] >= count for row in rows)
    assert {(row["command"], row["signal"]): row["problems"] for row in rows if row["problems"]} == {}


def test_a_killed_command_leaves_nothing_half_written_and_goes_on(tmp_path, environment):
    commands = ["propagate", "report", "label-next"]
    check(
        killed(tmp_path, environment, "--count", 1, "--signals", "SIGTERM", "--commands", *commands),
        commands,
        ["SIGTERM"],
        1,
    )


@pytest.mark.slow
def test_every_command_killed_twenty_times_by_every_signal(tmp_path, environment):
    rows = killed(tmp_path, environment, "--count", 20)
    check(rows, list(COMMANDS), [signal.Signals(number).name for number in SIGNALS], 20)
