from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.datasets._dicom import read_dicom
from tg_crepe.datasets._open import open_picture, unreadable

#: Pixels a side down to which a JPEG file is shrunk while it is unpacked, to a half, a quarter or an eighth: twice what
#: most networks read at least, so that the resizing that follows decides how the image looks.
_DRAFT = 1024


def open_image(path: Path) -> Any:
    r"""The image of a file as a viewer shows it, in colour with 8 bits: a :class:`PIL.Image.Image` of mode RGB.

    It is turned as its EXIF data say; of an animation or of several pages it is the first; what is transparent is
    white; grey, CMYK and palettes become RGB, and 16 bits are scaled to 8; a JPEG file of thousands of pixels a side
    is unpacked to a fraction, in as much less memory and time.

    Args:
        path (Path): The file.
    """
    if path.suffix.lower() == ".dcm":
        return as_rgb(require("PIL.Image", extra="vision").fromarray(read_dicom(path)), path)
    with open_picture(path) as image, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd EXIF data and the like: the pixels are what counts
        try:
            image.draft(None, (_DRAFT, _DRAFT))
            image.load()
            turned = require("PIL.ImageOps", extra="vision").exif_transpose(image)
        except Exception as error:  # whatever the reader of the first bad byte likes
            raise unreadable(path, error) from error
        return as_rgb(turned, path)


def as_rgb(image: Any, where: Path | str) -> Any:
    """A Pillow image of any mode in colour with 8 bits, see :func:`open_image`."""
    if image.mode == "RGB":
        return image
    image_module = require("PIL.Image", extra="vision")
    if image.mode.startswith("I"):
        grey = np.asarray(image)
        if grey.min() < 0 or grey.max() > 65535:
            raise damaged_file(where, f"its pixels must fit 16 bits, got {grey.min()} to {grey.max()}")
        image = image_module.fromarray(np.rint(grey / 257).astype(np.uint8))
    elif image.mode == "F":
        raise damaged_file(where, "pixels that are floating point numbers have no stated range; store 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = image_module.new("RGBA", layer.size, "white")
        return image_module.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def image_of(value: Any, where: str) -> Any:
    """A Pillow image in colour from a Pillow image, an array [H, W] or [H, W, C], or a tensor [C, H, W]."""
    from tg_crepe.datasets.torch_dataset import _image

    image_module = require("PIL.Image", extra="vision")
    if isinstance(value, image_module.Image):
        return as_rgb(require("PIL.ImageOps", extra="vision").exif_transpose(value), where)
    array = _image(value, where).numpy()
    return as_rgb(image_module.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0)), where)
