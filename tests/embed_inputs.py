"""Small sources and models for the tests of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tg_crepe.embed import Encoder

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def mean_colour(images: list[Any]) -> np.ndarray:
    """Three features of an image: enough to tell the images of :func:`write_images` apart."""
    return np.stack([np.asarray(image, np.float32).mean(axis=(0, 1)) / 255 for image in images])


class ColourEncoder(Encoder):
    """:func:`mean_colour` as a model that is known to be the same in every run.

    Args:
        stops_after (int, optional): After so many batches it stands for a killed process. (default: :obj:`None`)
        **options: Those of :class:`Encoder`.
    """

    kind = "images"

    def __init__(self, stops_after: int | None = None, **options: Any) -> None:
        super().__init__("mean_colour", **options)
        self.left = stops_after

    def encode(self, items: Sequence[Any]) -> Tensor:
        if self.left == 0:
            raise Stop
        self.left = None if self.left is None else self.left - 1
        return torch.from_numpy(mean_colour(list(items)))

    def describe(self) -> dict[str, Any]:
        return {"library": "these tests"}


class Stop(Exception):
    """What stands for a killed process."""


def colour_encoder(**options: Any) -> Encoder:
    return ColourEncoder(**options)


def write_images(folder: Path, count: int = 30, side: int = 12, seed: int = 0) -> list[str]:
    """Noisy images of three colours in turn, and the name of each one's colour."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    names = list(COLOURS)
    for number in range(count):
        noise = rng.integers(-25, 25, (side, side, 3))
        pixels = np.clip(np.array(COLOURS[names[number % 3]]) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")
    return [names[number % 3] for number in range(count)]


def write_labels(path: Path, classes: list[str], per_class: int = 2) -> None:
    """A table of labels for the first images of each class."""
    rows = [f"{number:03d}.png,{name}" for number, name in enumerate(classes[: 3 * per_class])]
    path.write_text("id,label\n" + "\n".join(rows) + "\n")
