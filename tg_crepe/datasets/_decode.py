"""One image file to bytes of a given size. Reading is by Pillow alone: torchvision is not needed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.datasets._dicom import dicom_size, read_dicom
from tg_crepe.datasets._open import open_picture, unreadable

#: What counts as an image file in a folder.
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".dcm"})


def image_size(path: Path) -> tuple[int, int]:
    """Height and width, from the header alone."""
    if path.suffix.lower() == ".dcm":
        return dicom_size(path)
    with open_picture(path) as image:
        return int(image.height), int(image.width)


def _to_bytes(image: Any, channels: int, path: Path) -> Any:
    """The image as grey or colour with 8 bits; transparency is dropped, 16 bits are scaled and not cut off."""
    if image.mode.startswith("I"):
        grey = np.asarray(image)
        if grey.min() < 0 or grey.max() > 65535:
            raise damaged_file(path, f"its pixels must fit 16 bits, got {grey.min()} to {grey.max()}")
        image = require("PIL.Image", extra="vision").fromarray(np.rint(grey / 257).astype(np.uint8))
    elif image.mode == "F":
        raise damaged_file(path, "pixels that are floating point numbers have no stated range; store 8 or 16 bits")
    elif image.mode == "P":  # a palette may hold transparency, which Pillow drops cleanly by way of RGBA alone
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def decode_image(path: Path, size: tuple[int, int] | None, channels: int) -> Tensor:
    """Bytes of shape [channels, height, width]; another size is reached by Pillow's antialiased bilinear filter."""
    if path.suffix.lower() == ".dcm":
        image = require("PIL.Image", extra="vision").fromarray(read_dicom(path))
    else:
        image = open_picture(path)
    with image:
        try:
            image.load()
        except Exception as error:  # whatever the reader of the first bad byte likes
            raise unreadable(path, error) from error
        pixels = _to_bytes(image, channels, path)
        if size is not None and (pixels.height, pixels.width) != size:
            resampling = require("PIL.Image", extra="vision").Resampling.BILINEAR
            pixels = pixels.resize((size[1], size[0]), resampling)
        array = np.array(pixels)
    return torch.from_numpy(array[None] if channels == 1 else array.transpose(2, 0, 1).copy())
