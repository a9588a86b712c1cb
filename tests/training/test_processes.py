from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from training_runs import environment

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

SCRIPT = Path(__file__).with_name("two_processes.py")


def launch(out: Path, *launcher: str) -> None:
    out.mkdir()
    command = [sys.executable, *launcher, str(SCRIPT), str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**environment(), "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run by one process and by two."""
    folder = tmp_path_factory.mktemp("processes")
    launch(folder / "one")
    launch(folder / "two", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    one, first, second = (
        torch.load(folder / name, weights_only=True) for name in ("one/rank0.pt", "two/rank0.pt", "two/rank1.pt")
    )
    assert (one["processes"], first["processes"], second["processes"]) == (1, 2, 2)
    return one, first, second


def test_two_processes_see_the_same_images_in_every_step(runs):
    one, first, second = runs
    assert len(one["indices"]) == len(first["indices"]) == len(second["indices"])
    for whole, *parts in zip(one["indices"], first["indices"], second["indices"], strict=True):
        assert all(parts)
        assert sorted(whole) == sorted(parts[0] + parts[1])


def test_gradients_of_two_processes_equal_those_of_one(runs):
    one, first, second = runs
    assert torch.equal(first["gradients"][0], second["gradients"][0])
    assert float(one["gradients"][0].abs().max()) > 1e-3
    torch.testing.assert_close(first["gradients"][0], one["gradients"][0], rtol=0, atol=1e-6)
    # Later steps too, with pseudo-labels that one process inferred for both; rounding has had time to grow.
    for ours, theirs in zip(first["gradients"], one["gradients"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_every_process_ends_with_the_same_weights_losses_and_pseudo_labels(runs):
    one, first, second = runs
    assert all(torch.equal(value, second["weights"][name]) for name, value in first["weights"].items())
    assert first["losses"] == second["losses"]
    assert first["losses"] == pytest.approx(one["losses"], abs=1e-4)
    assert torch.equal(first["pseudo_y"], second["pseudo_y"])
    assert torch.equal(first["pseudo_y"], one["pseudo_y"])


def test_networks_of_half_the_labels_tell_every_process_the_same(runs):
    one, first, second = runs
    assert torch.equal(first["certainty"], second["certainty"])
    torch.testing.assert_close(first["certainty"], one["certainty"], rtol=0, atol=1e-3)
