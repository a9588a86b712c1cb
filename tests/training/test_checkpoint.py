from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training_runs import CONFIG, Watched, blobs, environment, fit, numbers, weights

from tg_crepe import FeatureKNNGraph
from tg_crepe.runs import RunFolder
from tg_crepe.training import Callback, TrainingInterrupted

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

KILLED = Path(__file__).with_name("killed_run.py")
STEPS = 2 + 3 * 6  # 26 labelled images in 2 batches, then three epochs of 47 pseudo-labelled ones, at most 8 a batch


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, fit(folder)


def same(one, other) -> None:
    """Two runs have the same bits, but for their seconds."""
    assert numbers(one.history) == numbers(other.history)
    assert one.final == other.final
    assert all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())
    tensors = [name for name, value in one.data.to_dict().items() if isinstance(value, torch.Tensor)]
    assert all(torch.equal(one.data[name], other.data[name]) for name in tensors)


def interrupting(step: int, signum: int) -> Watched:
    def ask(now: int, index: object) -> None:
        if now == step:
            os.kill(os.getpid(), signum)

    return Watched.watch(blobs(), ask)


def test_killed_in_the_middle_of_epochs_a_run_resumes_to_the_same_bits(tmp_path, whole):
    for step in (2, 9):  # in the warm-up; then, counted from the resumed epoch, in the second hybrid epoch
        done = subprocess.run([sys.executable, str(KILLED), str(tmp_path), str(step)], env=environment(), timeout=300)
        assert done.returncode == -signal.SIGKILL
        assert RunFolder.open(tmp_path).info["status"] == "running"
    assert len(RunFolder.open(tmp_path).read_metrics()) == 2
    same(fit(tmp_path, resume=True), whole[1])
    assert [row["epoch"] for row in RunFolder.open(tmp_path).read_metrics()] == [1, 2, 3, 4]


@pytest.mark.parametrize(("step", "signum"), [(1, signal.SIGTERM), (STEPS - 3, signal.SIGINT)])
def test_a_signal_leaves_a_run_that_resumes_to_the_same_bits(tmp_path, whole, step, signum):
    before = signal.getsignal(signum)
    with pytest.raises(TrainingInterrupted, match=f"{signum.name}.*last.pt") as caught:
        fit(tmp_path, dataset=interrupting(step, signum))
    assert caught.value.signum == signum
    assert isinstance(caught.value, KeyboardInterrupt)  # `except Exception` must not swallow it
    assert signal.getsignal(signum) is before
    assert RunFolder.open(tmp_path).info["status"] == "interrupted"
    assert not list(tmp_path.rglob("*.tmp"))
    same(fit(tmp_path, resume=True), whole[1])
    assert RunFolder.open(tmp_path).info["status"] == "finished"


def test_a_second_signal_does_not_wait():
    def ask_twice(now: int, index: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        fit(dataset=Watched.watch(blobs(), ask_twice))
    assert not isinstance(caught.value, TrainingInterrupted)


@pytest.mark.parametrize(
    "options", [{"refresh_every": 3}, {"warm_start": True, "source": "lgc"}, {"source": "network"}]
)
def test_resuming_between_refreshes_or_with_a_warm_start_gives_the_same_bits(tmp_path, options):
    with pytest.raises(TrainingInterrupted):
        fit(tmp_path, dataset=interrupting(STEPS - 7, signal.SIGTERM), **options)  # in the third epoch
    same(fit(tmp_path, resume=True, **options), fit(**options))


def test_resuming_a_finished_run_gives_its_result_again(tmp_path, whole):
    shutil.copytree(whole[0], tmp_path / "run")
    same(fit(tmp_path / "run", resume=True), whole[1])


def test_not_a_number_stops_and_names_the_last_good_checkpoint(tmp_path):
    with pytest.raises(FloatingPointError, match=r"in epoch 1; the last good checkpoint is .*last\.pt'"):
        fit(tmp_path, learning_rate=1e30)
    content = torch.load(tmp_path / "checkpoint" / "last.pt", weights_only=True)
    assert content["epoch"] == 0
    assert all(bool(torch.isfinite(value).all()) for value in content["model"].values())
    assert RunFolder.open(tmp_path).info["status"] == "diverged"
    with pytest.raises(FloatingPointError, match="no run folder"):
        fit(learning_rate=1e30)


class Spoil(Callback):
    """Leaves weights that are not finite after every step of the second epoch, whose losses look well."""

    def on_batch_end(self, trainer, batch, loss):
        if trainer.epoch == 2:
            next(trainer.model.parameters()).data.fill_(float("inf"))
            loss.zero_()


def test_weights_that_the_last_step_of_an_epoch_spoils_are_not_kept(tmp_path):
    with pytest.raises(FloatingPointError, match="in epoch 2"):
        fit(tmp_path, callbacks=[Spoil()])
    assert torch.load(tmp_path / "checkpoint" / "last.pt", weights_only=True)["epoch"] == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epochs": 9}, "'epochs' was 4, is 9"),
        ({"learning_rate": 0.01}, "'learning_rate' was 0.05, is 0.01"),
        ({"seed": 4}, "'seed' was 3, is 4"),
        ({"source": "network"}, "'source' was 'EnergyLabels(transform=Compose(transforms=[FeatureKNNGraph("),
        ({"source": FeatureKNNGraph(k=7)}, "is 'EnergyLabels(transform=FeatureKNNGraph("),
        ({"backbone": "wide_resnet"}, "'network' was 'SmallCnn"),
    ],
)
def test_the_checkpoint_of_other_settings_is_refused(whole, change, named):
    with pytest.raises(ValueError, match="is the checkpoint of another run") as caught:
        fit(whole[0], resume=True, **change)
    assert named in str(caught.value)
    assert "epoch 4" not in str(caught.value)


def test_the_checkpoint_of_other_data_is_refused(whole):
    other = replace(blobs(), images=blobs().images.flip(0))
    with pytest.raises(ValueError, match="'pixels' was"):
        fit(whole[0], resume=True, dataset=other)
    targets = blobs().targets.clone()
    targets[0] = 2
    with pytest.raises(ValueError, match="'labels' was '13 with checksum"):
        fit(whole[0], resume=True, dataset=replace(blobs(), targets=targets))


def test_a_damaged_checkpoint_is_named(tmp_path, whole):
    shutil.copytree(whole[0], tmp_path / "run")
    path = tmp_path / "run" / "checkpoint" / "last.pt"
    for content in (path.read_bytes()[:5000], b"", b"no checkpoint"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"last\.pt' cannot be used: it is not a whole checkpoint"):
            fit(tmp_path / "run", resume=True)
    torch.save({"format": 99}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this version"):
        fit(tmp_path / "run", resume=True)


def test_a_run_folder_is_not_overwritten(whole):
    before = (whole[0] / "checkpoint" / "last.pt").read_bytes()
    with pytest.raises(FileExistsError, match="holds an earlier run"):
        fit(whole[0])
    assert (whole[0] / "checkpoint" / "last.pt").read_bytes() == before
    with pytest.raises(ValueError, match="'run' must name the folder"):
        fit(None, resume=True)


def test_the_folder_of_another_command_is_left_alone(tmp_path):
    RunFolder.create(tmp_path / "run", "propagate", {})
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(ValueError, match=r"must be a folder of 'train' to resume, .* is one of 'propagate'"):
        fit(tmp_path / "run", resume=True)
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["run.json"]
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_a_run_that_died_before_its_first_checkpoint_is_begun_anew(tmp_path, whole):
    RunFolder.create(tmp_path / "run", "train", {"epochs": 99})
    same(fit(tmp_path / "run", resume=True), whole[1])
    assert RunFolder.open(tmp_path / "run").info["settings"]["epochs"] == CONFIG.epochs


def test_the_run_folder_holds_what_a_report_needs(whole):
    folder, result = whole
    run = RunFolder.open(folder)
    assert run.info["status"] == "finished"
    assert run.info["seed"] == CONFIG.seed
    rows = run.read_metrics()
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == result.history
    assert [row["loss"] for row in rows] == [row["loss"] for row in result.history]
    kept = run.read_result()
    assert torch.equal(torch.from_numpy(kept.label), result.data.pseudo_y)
    assert kept.labelled.sum() == 13
    edge_index, _, count = run.read_graph()
    assert count == len(blobs().train)
    assert torch.equal(torch.from_numpy(edge_index), result.data.edge_index)
    assert len(run.read_trace()["step"]) > 0
    node, images = run.read_thumbnails()
    assert torch.equal(torch.from_numpy(images), blobs().images[blobs().train[torch.from_numpy(node)]])
    assert json.loads((folder / "final.json").read_text()) == result.final
