"""Image files are opened here and nowhere else: a few formats, and no more pixels than anybody has."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, BinaryIO

from tg_crepe._files import damaged_file
from tg_crepe._optional import require

#: What a file may be, whatever its name says. Pillow knows many more: it hands PostScript to Ghostscript, and formats
#: that hardly anybody uses have readers that hardly anybody tests.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")

#: Pixels of an image that is still opened: a slide of 32,000 x 32,000 is, 3 GB for a moment; a file that claims more is
#: taken for damaged. Pillow's own limit is a twelfth of it and meant for servers that read files of strangers.
MOST_PIXELS = 1 << 30

#: Pillow's limit belongs to the whole process: one thread at a time lifts it.
_LIMIT = threading.Lock()


def open_picture(file: Path | BinaryIO, name: Path | str | None = None) -> Any:
    """Pillow's image of a file with its header read; the pixels are read on demand.

    Filters of warnings belong to the process, and this is called by threads: they stay as they are.

    Args:
        file (Path or file): The file.
        name (Path or str, optional): What to call it in a message. (default: :obj:`None`, its path)
    """
    path = str(file) if name is None else name
    image_module: Any = require("PIL.Image", extra="vision")
    try:
        with _LIMIT:
            before = image_module.MAX_IMAGE_PIXELS
            image_module.MAX_IMAGE_PIXELS = None  # no remark either: opening takes no memory, and the limit is below
            try:
                image = image_module.open(file, formats=FORMATS)
            finally:
                image_module.MAX_IMAGE_PIXELS = before
    except FileNotFoundError as error:
        raise FileNotFoundError(f"the image '{path}' is missing") from error
    except PermissionError as error:
        raise PermissionError(f"the image '{path}' may not be read") from error
    except Exception as error:  # whatever the reader of the first bad byte likes
        raise damaged_file(
            path, f"it is not a readable image ({', '.join(FORMATS)}); it is damaged or of another kind"
        ) from error
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise _too_large(path)
    return image


def _too_large(path: Path | str) -> ValueError:
    return damaged_file(path, f"it claims to have more than {MOST_PIXELS:,} pixels")


def unreadable(path: Path | str, error: Exception) -> ValueError:
    """The error for pixels that cannot be unpacked."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return damaged_file(path, f"its pixels cannot be read ({reason}); it is damaged or half downloaded")
