from __future__ import annotations

import os
import signal

import pytest
import torch

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

from training_runs import blobs, fit, numbers, weights

from tg_crepe.training import Callback, TrainingInterrupted

STEPS = {1: 2, 2: 6}  # by epoch: 26 labelled images in batches of 16, then 47 pseudo-labelled ones, at most 8 per batch


class Moments(Callback):
    """Writes down every moment with the epoch."""

    def __init__(self, name: str = "", into: list | None = None) -> None:
        self.seen: list = [] if into is None else into
        self.name = name

    def note(self, moment: str, trainer) -> None:
        self.seen.append((f"{self.name}{moment}", trainer.epoch))

    def on_train_begin(self, trainer):
        self.note("train begin", trainer)

    def on_epoch_begin(self, trainer):
        self.note("epoch begin", trainer)

    def on_labels_begin(self, trainer):
        assert "x" in trainer.data
        self.note("labels begin", trainer)

    def on_labels_end(self, trainer):
        assert "pseudo_y" in trainer.data
        self.note("labels end", trainer)

    def on_batch_begin(self, trainer, batch):
        assert len(batch.labelled)
        self.note("batch begin", trainer)

    def on_batch_end(self, trainer, batch, loss):
        assert float(loss) > 0
        self.note("batch end", trainer)

    def on_epoch_end(self, trainer):
        assert trainer.history[-1]["epoch"] == trainer.epoch
        self.note("epoch end", trainer)

    def on_train_end(self, trainer, error):
        self.note(f"train end, {type(error).__name__}", trainer)


def epoch(number: int, hybrid: bool) -> list[tuple[str, int]]:
    labels = ["labels begin", "labels end"] if hybrid else []
    moments = ["epoch begin", *labels, *["batch begin", "batch end"] * STEPS[number], "epoch end"]
    return [(moment, number) for moment in moments]


def test_a_callback_of_the_user_sees_its_moments_in_order_and_changes_nothing():
    moments = Moments()
    watched, plain = fit(epochs=2, callbacks=[moments]), fit(epochs=2)
    last = [("labels begin", 2), ("labels end", 2), ("train end, NoneType", 2)]
    assert moments.seen == [("train begin", 0), *epoch(1, hybrid=False), *epoch(2, hybrid=True), *last]
    assert numbers(watched.history) == numbers(plain.history)
    assert all(torch.equal(value, weights(plain)[name]) for name, value in weights(watched).items())


def test_the_halves_of_the_labels_are_no_moments_of_the_user():
    judged, plain = Moments(), Moments()
    fit(epochs=2, hold_out=True, callbacks=[judged])
    fit(epochs=2, callbacks=[plain])
    assert judged.seen == plain.seen


def test_what_begins_first_ends_last():
    seen: list = []
    fit(epochs=1, callbacks=[Moments("one: ", seen), Moments("two: ", seen)])
    names = [moment for moment, _ in seen]
    assert names[:2] == ["one: train begin", "two: train begin"]
    assert names[-2:] == ["two: train end, NoneType", "one: train end, NoneType"]


class Fails(Callback):
    def on_epoch_end(self, trainer):
        raise OSError("the disk is full")


def test_an_error_ends_every_callback_and_gives_signals_back():
    moments, before = Moments(), signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="the disk is full"):
        fit(epochs=2, callbacks=[moments, Fails()])
    assert moments.seen[-1] == ("train end, OSError", 1)
    assert signal.getsignal(signal.SIGINT) is before


class Counts(Callback):
    """Counts steps, and asks training to stop after some of them."""

    def __init__(self, stop: int | None = None) -> None:
        self.steps, self.stop = 0, stop

    def on_batch_end(self, trainer, batch, loss):
        self.steps += 1
        if self.steps == self.stop:
            os.kill(os.getpid(), signal.SIGTERM)

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def test_the_state_of_a_callback_is_kept_in_the_checkpoint(tmp_path):
    with pytest.raises(TrainingInterrupted):
        fit(tmp_path, epochs=2, callbacks=[Counts(stop=4)])  # in the second epoch, which is repeated
    counts = Counts()
    fit(tmp_path, epochs=2, resume=True, callbacks=[counts])
    assert counts.steps == sum(STEPS.values())


def test_a_callback_that_the_checkpoint_does_not_know_may_join(tmp_path):
    fit(tmp_path, epochs=1)
    counts = Counts()
    fit(tmp_path, epochs=1, resume=True, callbacks=[counts])
    assert counts.steps == 0


def test_a_callback_may_read_the_run_folder(tmp_path):
    class Names(Callback):
        def on_train_end(self, trainer, error):
            (trainer.run.path / "classes.txt").write_text("\n".join(trainer.dataset.class_names))

    fit(tmp_path / "run", epochs=1, callbacks=[Names()])
    assert (tmp_path / "run" / "classes.txt").read_text().splitlines() == list(blobs().class_names)
