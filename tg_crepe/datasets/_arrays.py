"""Arrays of images and labels in the forms that people store them in, to the one form of the package."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import damaged_file


def image_bytes(array: np.ndarray, where: str) -> Tensor:
    """The same array in bytes; floating point numbers must be in [0, 1] and are scaled."""
    if array.dtype.kind == "f":
        if not bool(np.isfinite(array).all()):
            raise damaged_file(where, "images hold NaN or infinity")
        if array.size and (array.min() < 0 or array.max() > 1):
            raise damaged_file(where, f"floating point images must be in [0, 1], got {array.min()} to {array.max()}")
        array = np.rint(array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise damaged_file(where, f"images must be uint8 or floating point in [0, 1], got {array.dtype}")
    return torch.from_numpy(np.array(array, order="C"))


def image_tensor(array: np.ndarray, where: str) -> Tensor:
    """Bytes of shape [N, channels, height, width] from [N, height, width], channels first or channels last."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim != 4 or not {array.shape[1], array.shape[3]} & {1, 3}:
        raise damaged_file(
            where, f"images must be [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1, 3, got {array.shape}"
        )
    elif array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    elif array.shape[3] in (1, 3):
        raise damaged_file(where, f"which axis of images holds the channels is not clear from the shape {array.shape}")
    return image_bytes(array, where)


def target_tensor(labels: np.ndarray, count: int, where: str, num_classes: int | None = None) -> tuple[Tensor, bool]:
    """Targets as :class:`ImageDataset` wants them, and whether they are multi-label.

    Shapes [N] and [N, 1] are classes (-1 unknown), [N, L] with L > 1 is 0 or 1 (-1 or NaN unknown).
    """
    labels = np.asarray(labels)
    if labels.shape == (count, 1):
        labels = labels[:, 0]
    if labels.shape[:1] != (count,) or labels.ndim > 2 or labels.size == 0:
        raise damaged_file(where, f"labels must be of shape ({count},) or ({count}, L), got {labels.shape}")
    if labels.dtype.kind not in "iufb":
        raise damaged_file(where, f"labels must be integers, got {labels.dtype}")
    multi_label = labels.ndim == 2
    if labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), -1, labels) if multi_label else labels
        if not bool((np.isfinite(labels) & (labels == np.rint(labels))).all()):
            raise damaged_file(where, "labels must be integers, got NaN or fractions")
    high = 1 if multi_label else (np.inf if num_classes is None else num_classes - 1)
    if labels.max() > high or (labels.dtype.kind != "u" and labels.astype(np.float64).min() < -1):
        raise damaged_file(where, f"labels must be in [-1, {high}], got {labels.min()} to {labels.max()}")
    if num_classes is None and not multi_label and labels.max() > 100 * len(np.unique(labels)) + 1000:
        raise damaged_file(where, f"labels must number the classes without huge gaps, got one of {labels.max()}")
    return torch.from_numpy(labels.astype(np.int64)), multi_label
