"""Checks of what a trainer is given, before any work."""

from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_tensor
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.splits import LabelSplit
from tg_crepe.models.base import EnergyModel
from tg_crepe.training.config import TrainingConfig


def labelled_mask(dataset: ImageDataset, train_mask: LabelSplit | Tensor) -> Tensor:
    """The mask of a split or of the user, checked against the data set."""
    mask = check_tensor("train_mask", train_mask.train_mask if isinstance(train_mask, LabelSplit) else train_mask)
    if mask.dtype != torch.bool or list(mask.shape) != [len(dataset.train)]:
        raise ValueError(
            f"'train_mask' must be bool of shape [{len(dataset.train)}], one a training image, got {mask.dtype} of "
            f"shape {list(mask.shape)}"
        )
    if not bool(mask.any()):
        raise ValueError("'train_mask' must mark at least one labelled image, got none")
    known = (dataset.targets[dataset.train[mask]] >= 0).view(int(mask.sum()), -1).any(dim=1)
    if not bool(known.all()):
        raise ValueError(f"'train_mask' must mark images with a known label, got {int((~known).sum())} without one")
    return mask.cpu().clone()


def check_fit(dataset: ImageDataset, mask: Tensor, energy: str | EnergyModel, config: TrainingConfig) -> None:
    """Raise where the settings do not fit the data, before any work."""
    for name in ("align_classes", "hold_out"):
        if getattr(config, name) and dataset.multi_label:
            raise ValueError(f"'{name}' must be False where an image may have several labels, got True")
    if config.hold_out:
        if energy == "none":
            raise ValueError("'hold_out' must be False where there are no pseudo-labels ('energy' is 'none'), got True")
        count = torch.bincount(dataset.targets[dataset.train[mask]])
        if 2 * int(count[count > 1].sum()) < int(count.sum()):
            raise ValueError("'hold_out' must be False where most labels are the only one of their class, got True")
    if isinstance(energy, EnergyModel) and config.k >= len(mask):
        raise ValueError(f"'k' must be below the number of training images, {len(mask)}, got {config.k}")
