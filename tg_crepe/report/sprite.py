from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np

from tg_crepe._optional import require

#: Pixels a side of a small image, the same where there are many, how many those are, and bytes above which the sheet is
#: compressed with loss.
_SIDE, _SIDE_OF_MANY, _MANY, _LOSSLESS = 48, 28, 700, 600_000


class Sprite:
    r"""Small images as one picture, of which the page shows a part each time: one download, one decoding.

    Args:
        node (numpy.ndarray): The nodes of the images, of shape :obj:`[num_images]`.
        images (numpy.ndarray): Bytes of shape :obj:`[num_images, channels, height, width]`.
    """

    def __init__(self, node: np.ndarray, images: np.ndarray) -> None:
        self.place = {int(value): place for place, value in enumerate(node)}
        # Two at least: the place of a part is a share of the columns and rows but one.
        self.columns = max(2, math.ceil(math.sqrt(len(node))))
        self.rows = max(2, math.ceil(len(node) / self.columns))
        self.source = _encode(_sheet(images, self.columns, self.rows))
        self.aspect = images.shape[3] / images.shape[2]
        self.coarse = max(images.shape[2:]) <= 32

    def style(self, node: int) -> str | None:
        """The CSS variables that pick the image of a node, or None where there is none."""
        place = self.place.get(node)
        return None if place is None else f"--c:{place % self.columns};--r:{place // self.columns}"


def _sheet(images: np.ndarray, columns: int, rows: int) -> Any:
    """All images beside and below each other."""
    image_class = require("PIL.Image", extra="report")
    height, width = images.shape[2:]
    scale = min(1.0, (_SIDE if len(images) <= _MANY else _SIDE_OF_MANY) / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    sheet = image_class.new("RGB" if images.shape[1] == 3 else "L", (columns * size[0], rows * size[1]))
    for place, image in enumerate(images):
        pixels = image.transpose(1, 2, 0) if images.shape[1] == 3 else image[0]
        tile = image_class.fromarray(np.ascontiguousarray(pixels))
        tile = tile.resize(size, image_class.Resampling.BOX) if scale < 1 else tile
        sheet.paste(tile, (place % columns * size[0], place // columns * size[1]))
    return sheet


def _encode(sheet: Any) -> str:
    """The address that holds the picture itself."""
    data, kind = io.BytesIO(), "png"
    sheet.save(data, format="PNG", optimize=True)
    if data.tell() > _LOSSLESS:
        data, kind = io.BytesIO(), "jpeg"
        sheet.save(data, format="JPEG", quality=80)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
