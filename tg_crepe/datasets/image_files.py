from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tg_crepe._checks import check_count
from tg_crepe.datasets._decode import decode_image


def check_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width that a user gave as one number or as two."""
    sides = size if isinstance(size, tuple) else (size, size)
    if len(sides) != 2:
        raise ValueError(f"'size' must be one number or (height, width), got {size!r}")
    for side in sides:
        check_count("size", side)
    return int(sides[0]), int(sides[1])


@dataclass(frozen=True, eq=False)
class ImageFiles:
    r"""Image files that are decoded when they are asked for, all to the same size and number of channels.

    A file of another size is resized to it (without keeping the aspect), one of another mode is converted: transparency
    is dropped, 16 bits are scaled to 8.

    Args:
        paths (tuple[Path, ...]): The files.
        size (tuple[int, int]): Height and width of the decoded images.
        channels (int, optional): :obj:`1` for grey or :obj:`3` for colour. (default: :obj:`3`)
    """

    paths: tuple[Path, ...]
    size: tuple[int, int]
    channels: int = 3

    def __post_init__(self) -> None:
        check_size(self.size)
        if self.channels not in (1, 3):
            raise ValueError(f"'channels' must be 1 or 3, got {self.channels!r}")

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As that of a tensor of all images."""
        return len(self.paths), self.channels, *self.size

    def __getitem__(self, index: Tensor) -> Tensor:
        """Decodes the images of an index tensor: bytes of shape [len(index), channels, height, width]."""
        paths = [self.paths[i] for i in index.tolist()]
        if not paths:
            return torch.empty(0, *self.shape[1:], dtype=torch.uint8)
        # Pillow lets other threads run while it unpacks.
        with ThreadPoolExecutor(min(len(paths), os.cpu_count() or 1)) as pool:
            return torch.stack(list(pool.map(lambda path: decode_image(path, self.size, self.channels), paths)))
