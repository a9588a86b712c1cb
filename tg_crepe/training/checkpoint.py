from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tg_crepe._files import atomic_file, damaged
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.models.base import EnergyModel
from tg_crepe.training.config import TrainingConfig

#: The layout of the file; a reader refuses another one.
FORMAT = 2

#: The file in the checkpoint folder of a run.
FILE = "last.pt"

_KEYS = ("run", "epoch", "model", "optimizer", "scheduler", "scaler", "pseudo", "u", "held_out", "untrained", "history")


def describe_run(
    dataset: ImageDataset, y: Tensor, train_mask: Tensor, network: nn.Module, energy: Any, config: TrainingConfig
) -> dict[str, Any]:
    r"""All that a run depends on, as plain values that can be compared: no true label of an unlabelled image.

    Args:
        dataset (ImageDataset): The images.
        y (torch.Tensor): The labels of the training images, -1 where they are not labelled.
        train_mask (torch.Tensor): Which of them are labelled.
        network (torch.nn.Module): The network.
        energy (str or EnergyModel): What gives the pseudo-labels.
        config (TrainingConfig): The settings.
    """
    names = "\n".join(dataset.ids[i] for i in dataset.train.tolist()).encode()
    pixels = dataset.images.contiguous().numpy() if isinstance(dataset.images, Tensor) else b""
    if isinstance(energy, EnergyModel):
        options = ", ".join(f"{name}={value}" for name, value in sorted(vars(energy).items()))
        energy = f"{type(energy).__name__}({options})"
    return {
        **asdict(config),
        "energy": energy,
        "network": f"{type(network).__name__} of {sum(p.numel() for p in network.parameters())} weights",
        "dataset": dataset.name,
        "class_names": list(dataset.class_names),
        "image_shape": list(dataset.images.shape[1:]),
        "training images": f"{len(dataset.train)} with checksum {_digest(names)}",
        "pixels": _digest(pixels),
        "labels": f"{int(train_mask.sum())} with checksum {_digest(y.numpy())}",
    }


def save_checkpoint(folder: Path, content: dict[str, Any]) -> Path:
    """Writes a checkpoint under another name, forces it to the disk and renames it; returns its path."""
    path = folder / FILE
    with atomic_file(path) as unfinished, unfinished.open("wb") as file:
        torch.save({"format": FORMAT, **content}, file)
        file.flush()
        os.fsync(file.fileno())
    return path


def load_checkpoint(folder: Path, run: dict[str, Any]) -> dict[str, Any] | None:
    r"""Reads the checkpoint of a run, and raises if it is damaged or that of another one.

    Args:
        folder (Path): The checkpoint folder.
        run (dict): What :func:`describe_run` says of the run that wants to go on.

    Returns:
        dict, optional: The content, or :obj:`None` where there is no checkpoint yet.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever the reader of its first bad byte likes
        raise damaged(path, f"it is not a whole checkpoint ({type(error).__name__})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or any(key not in content for key in _KEYS):
        raise damaged(path, f"it is not a checkpoint of this version (format {FORMAT})")
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
