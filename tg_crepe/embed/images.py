from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.datasets._dicom import read_dicom
from tg_crepe.datasets._open import open_picture, unreadable

#: Images of more pixels are unpacked one at a time, so that threads do not need that memory several times.
_LARGE = 1 << 26
_one_large_image = threading.Lock()

#: Pixels of the shorter side down to which a large image is shrunk as it is unpacked, by a whole number: twice what
#: most networks read at least, so that the resizing that follows decides how the image looks.
_SHRUNK = 1024

#: The number of the orientation in EXIF data.
_ORIENTATION = 0x0112


@contextmanager
def quiet_pictures() -> Iterator[None]:
    """Keeps Pillow's remarks on odd files off the screen, in all threads: the pixels are what counts.

    It is for the thread that starts them, since filters of warnings belong to the process, and threads that change them
    leave what they should not.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def open_image(path: Path) -> Any:
    r"""The image of a file as a viewer shows it, in colour with 8 bits: a :class:`PIL.Image.Image` of mode RGB.

    It is turned as its EXIF data say; of an animation or of several pages it is the first; what is transparent is
    white; grey, CMYK and palettes become RGB, and 16 bits are scaled to 8; an image of thousands of pixels a side is
    shrunk, a JPEG file while it is unpacked, in as much less memory and time.

    Args:
        path (Path): The file.
    """
    if path.suffix.lower() == ".dcm":
        return as_rgb(require("PIL.Image", extra="vision").fromarray(read_dicom(path)), path)
    return _decode(path, path)


def image_of(value: Any, where: str) -> Any:
    """A Pillow image in colour from a Pillow image, an array [H, W] or [H, W, C], a tensor [C, H, W], or the bytes of a
    file, which Hugging Face keeps in a dictionary."""
    from tg_crepe.datasets.torch_dataset import _image

    image_module = require("PIL.Image", extra="vision")
    if isinstance(value, dict) and value.get("bytes") is not None:
        value = value["bytes"]
    elif isinstance(value, dict) and value.get("path"):
        return open_image(Path(value["path"]))
    if isinstance(value, bytes):
        return _decode(io.BytesIO(value), where)
    if isinstance(value, image_module.Image):
        return as_rgb(_turned(value), where)
    array = _image(value, where).numpy()
    return as_rgb(image_module.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0)), where)


def _decode(file: Path | io.BytesIO, where: Path | str) -> Any:
    """See :func:`open_image`."""
    with open_picture(file, where) as image:
        try:
            with _one_large_image if image.width * image.height > _LARGE else nullcontext():
                image.draft(None, (_SHRUNK, _SHRUNK))
                image.load()
                smaller = _shrunk(_turned(image))
        except MemoryError as error:
            raise damaged_file(where, "there is not enough memory to unpack it") from error
        except Exception as error:  # whatever the reader of the first bad byte likes
            raise unreadable(where, error) from error
        return as_rgb(smaller, where)


def _shrunk(image: Any) -> Any:
    """An image by a whole number smaller whose shorter side is still long enough; modes that cannot be averaged as
    they are stay as they are."""
    factor = min(image.size) // _SHRUNK
    if factor < 2 or image.mode not in ("L", "RGB", "RGBA", "LA", "CMYK"):
        return image
    smaller = image.reduce(factor)
    if "transparency" in image.info:
        smaller.info["transparency"] = image.info["transparency"]
    return smaller


def _turned(image: Any) -> Any:
    """The image as its EXIF data want it, or as it is where they are damaged: so does a viewer."""
    try:
        if image.getexif().get(_ORIENTATION, 1) == 1:  # Pillow would make a copy
            return image
        return require("PIL.ImageOps", extra="vision").exif_transpose(image)
    except Exception:  # readers of EXIF raise whatever the first bad byte leads to
        return image


def as_rgb(image: Any, where: Path | str) -> Any:
    """A Pillow image of any mode in colour with 8 bits, see :func:`open_image`."""
    image_module = require("PIL.Image", extra="vision")
    if image.mode.startswith("I"):
        image = image_module.fromarray(_eight_bits(np.asarray(image), where))
    elif image.mode == "F":
        raise damaged_file(where, "pixels that are floating point numbers have no stated range; store 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = image_module.new("RGBA", layer.size, "white")
        return image_module.alpha_composite(white, layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bits(grey: np.ndarray, where: Path | str) -> np.ndarray:
    """Of 16 bits to 8, in stripes: a large image in floating point would need four times its memory."""
    if grey.min() < 0 or grey.max() > 65535:
        raise damaged_file(where, f"its pixels must fit 16 bits, got {grey.min()} to {grey.max()}")
    scaled = np.empty(grey.shape, np.uint8)
    for start in range(0, len(grey), 256):
        scaled[start : start + 256] = np.rint(grey[start : start + 256] / 257)
    return scaled
