from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.datasets._dicom import read_dicom

#: Pixels of an image that is still opened: a slide of 32,000 x 32,000 is, 3 GB for a moment; a file that claims more is
#: taken for damaged. Pillow's own limit is a twelfth of it and meant for servers that read files of strangers.
MOST_PIXELS = 1 << 30

#: Pixels a side down to which a JPEG file is shrunk while it is unpacked, to a half, a quarter or an eighth: twice what
#: most networks read at least, so that the resizing that follows decides how the image looks.
_DRAFT = 1024


@contextmanager
def larger_images() -> Iterator[None]:
    """Raises Pillow's limit for the size of an image to ours while the block runs."""
    image_module: Any = require("PIL.Image", extra="vision")
    before = image_module.MAX_IMAGE_PIXELS
    image_module.MAX_IMAGE_PIXELS = MOST_PIXELS
    try:
        yield
    finally:
        image_module.MAX_IMAGE_PIXELS = before


def open_image(path: Path) -> Any:
    r"""The image of a file as a viewer shows it, in colour with 8 bits: a :class:`PIL.Image.Image` of mode RGB.

    It is turned as its EXIF data say; of an animation or of several pages it is the first; what is transparent is
    white; grey, CMYK and palettes become RGB, and 16 bits are scaled to 8; a JPEG file of thousands of pixels a side
    is unpacked to a fraction, in as much less memory and time. Used inside :func:`larger_images`.

    Args:
        path (Path): The file.
    """
    if path.suffix.lower() == ".dcm":
        return as_rgb(require("PIL.Image", extra="vision").fromarray(read_dicom(path)), path)
    image_module = require("PIL.Image", extra="vision")
    too_large = (image_module.DecompressionBombError, image_module.DecompressionBombWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd EXIF data and the like: the pixels are what counts
        warnings.simplefilter("error", image_module.DecompressionBombWarning)
        try:
            with image_module.open(path) as image:
                image.draft(None, (_DRAFT, _DRAFT))
                image.load()
                return as_rgb(require("PIL.ImageOps", extra="vision").exif_transpose(image), path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"the image '{path}' is missing") from error
        except PermissionError as error:
            raise PermissionError(f"the image '{path}' may not be read") from error
        except too_large as error:
            raise damaged_file(path, f"it claims to have more than {MOST_PIXELS:,} pixels") from error
        except image_module.UnidentifiedImageError as error:
            raise damaged_file(path, "it is not a readable image; it is damaged or of another kind") from error
        except ValueError as error:
            if str(error).startswith(f"'{path}' cannot be used"):
                raise
            raise _unreadable(path, error) from error
        except (OSError, SyntaxError, EOFError, IndexError, TypeError, KeyError, OverflowError) as error:
            # Whatever the reader of the first bad byte likes.
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ValueError:
    return damaged_file(path, f"its pixels cannot be read ({error}); it is damaged or half downloaded")


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
