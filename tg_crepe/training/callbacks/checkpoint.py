from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tg_crepe._files import atomic_file, damaged_file
from tg_crepe.runs import RunFolder
from tg_crepe.training.callbacks.base import Callback
from tg_crepe.training.callbacks.interrupt import TrainingInterrupted
from tg_crepe.training.processes import from_main_process
from tg_crepe.training.sources import PSEUDO_LABELS, describe

if TYPE_CHECKING:
    from tg_crepe.training.trainer import HybridTrainer

#: The layout of the file; a reader refuses another one.
FORMAT = 3

#: The file in the checkpoint folder of a run.
FILE = "last.pt"


class Checkpoint(Callback):
    """Makes the run folder or opens it to resume, writes a checkpoint after every epoch, and the status of the run.

    Every process reads the checkpoint, the main one alone writes.
    """

    def on_train_begin(self, trainer: HybridTrainer) -> None:
        """Makes or opens the run folder, and goes on from its checkpoint."""
        accelerator, path = trainer.accelerator, trainer.checkpoint
        assert path is not None  # the trainer has this callback with a run folder alone
        folder = path.parents[1]
        self._settings = describe_run(trainer)
        # Only the main process may look: it is also the one that makes the folder.
        going_on = from_main_process(trainer.resume and (folder / "run.json").exists())
        content = load_checkpoint(path, self._settings) if going_on else None
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            trainer.run = self._open(folder, going_on, content is None, trainer.config.seed)
        if content is None:
            self._save(trainer)
        else:
            _restore(trainer, content)
            if trainer.run is not None:
                trainer.run.finish("running")

    def on_epoch_end(self, trainer: HybridTrainer) -> None:
        """Writes the checkpoint."""
        self._save(trainer)

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """Writes how the run ended."""
        ends = {TrainingInterrupted: "interrupted", FloatingPointError: "diverged", type(None): "finished"}
        if trainer.run is not None and type(error) in ends:  # any other error leaves it "running", as a kill does
            trainer.run.finish(ends[type(error)])

    def _open(self, folder: Path, going_on: bool, new: bool, seed: int) -> RunFolder:
        """The folder of this run; that of another command is left alone, one without a checkpoint is begun anew."""
        if going_on:
            command = RunFolder.open(folder).info["command"]
            if command != "train":
                raise ValueError(f"'run' must be a folder of 'train' to resume, '{folder}' is one of '{command}'")
        if new:
            return RunFolder.create(folder, "train", self._settings, seed, force=going_on)
        return RunFolder.open(folder)

    def _save(self, trainer: HybridTrainer) -> None:
        """Writes the checkpoint under another name, forces it to the disk and renames it."""
        if trainer.run is None:
            return
        scaler, data = trainer.accelerator.scaler, trainer.data
        warm = trainer.config.warm_start and "propagation" in data
        content = {
            "format": FORMAT,
            "run": self._settings,
            "epoch": trainer.epoch,
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "scheduler": trainer.scheduler.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "pseudo": {name: data[name] for name in PSEUDO_LABELS if name in data},
            "u0": data.propagation.u.cpu() if warm else data.get("u0"),
            "callbacks": {type(callback).__name__: callback.state_dict() for callback in trainer.callbacks},
            "history": trainer.history,
        }
        with atomic_file(trainer.run.checkpoint / FILE) as unfinished, unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())


def _restore(trainer: HybridTrainer, content: dict[str, Any]) -> None:
    """Brings network, optimiser, schedule, pseudo-labels and callbacks to where a checkpoint left them."""
    trainer.model.load_state_dict(content["model"])
    trainer.optimizer.load_state_dict(content["optimizer"])
    trainer.scheduler.load_state_dict(content["scheduler"])
    if content["scaler"] is not None and trainer.accelerator.scaler is not None:
        trainer.accelerator.scaler.load_state_dict(content["scaler"])
    for name, value in {**content["pseudo"], "u0": content["u0"]}.items():
        trainer.data[name] = value
    for callback in trainer.callbacks:
        if type(callback).__name__ in content["callbacks"]:
            callback.load_state_dict(content["callbacks"][type(callback).__name__])
    trainer.epoch, trainer.history = content["epoch"], content["history"]


def describe_run(trainer: HybridTrainer) -> dict[str, Any]:
    """All that a run depends on, as plain values that can be compared: no true label of an unlabelled image."""
    dataset, data = trainer.dataset, trainer.data
    names = "\n".join(dataset.ids[i] for i in dataset.train.tolist()).encode()
    pixels = dataset.images.contiguous().numpy() if isinstance(dataset.images, Tensor) else b""
    num_weights = sum(parameter.numel() for parameter in trainer.model.parameters())
    return {
        **asdict(trainer.config),
        "source": describe(trainer.source),
        "network": f"{type(trainer.model).__name__} of {num_weights} weights",
        "dataset": dataset.name,
        "class_names": list(dataset.class_names),
        "image_shape": list(dataset.images.shape[1:]),
        "training images": f"{len(dataset.train)} with checksum {_digest(names)}",
        "pixels": _digest(pixels),
        "labels": f"{int(data.train_mask.sum())} with checksum {_digest(data.y.numpy())}",
    }


def load_checkpoint(path: Path, run: dict[str, Any]) -> dict[str, Any] | None:
    r"""Reads the checkpoint of a run, and raises if it is damaged or that of another one.

    Args:
        path (Path): The file.
        run (dict): What :func:`describe_run` says of the run that wants to go on.

    Returns:
        dict, optional: The content, or :obj:`None` where there is no checkpoint yet.
    """
    if not path.is_file():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever the reader of its first bad byte likes
        raise damaged_file(path, f"it is not a whole checkpoint ({type(error).__name__})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise damaged_file(path, f"it is not a checkpoint of this version (format {FORMAT})")
    then: dict[str, Any] = content["run"]
    changed = [name for name in {**then, **run} if then.get(name) != run.get(name)]
    if changed:
        told = "; ".join(f"'{name}' was {then.get(name)!r}, is {run.get(name)!r}" for name in changed)
        raise ValueError(
            f"'{path}' is the checkpoint of another run: {told}. Resume with its settings and data, or "
            "name another run folder"
        )
    return content


def _digest(content: Any) -> str:
    """A short checksum of bytes or of an array."""
    return hashlib.blake2b(memoryview(content).cast("B") if len(content) else b"", digest_size=8).hexdigest()
