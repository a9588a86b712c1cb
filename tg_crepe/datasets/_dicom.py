from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file
from tg_crepe._optional import require


def _read(path: Path, header_only: bool) -> Any:
    pydicom = require("pydicom", extra="medical")
    if not path.is_file():
        raise FileNotFoundError(f"the image '{path}' is missing")
    try:
        return pydicom.dcmread(path, stop_before_pixels=header_only)
    except Exception as error:  # pydicom has its own errors, and lets those of struct and zlib through
        raise damaged_file(path, f"it is not a readable DICOM file ({error})") from error


def dicom_size(path: Path) -> tuple[int, int]:
    """Height and width, from the header alone."""
    header = _read(path, header_only=True)
    if "Rows" not in header or "Columns" not in header:
        raise damaged_file(path, "it is a DICOM file without an image")
    return int(header.Rows), int(header.Columns)


def read_dicom(path: Path) -> np.ndarray:
    r"""A grey DICOM image as bytes of shape [height, width].

    The stored range of :math:`b` bits, :math:`[0, 2^b - 1]`, is mapped to :math:`[0, 255]`. It is the file's and not
    the image's own range, so two images keep their difference in brightness. :obj:`MONOCHROME1` is turned round.
    """
    file = _read(path, header_only=False)
    try:
        pixels = file.pixel_array
    except Exception as error:  # a missing decoder, missing tags or too few bytes: pydicom raises what it likes
        raise damaged_file(path, f"its pixels cannot be read ({error}); it is damaged or half downloaded") from error
    if pixels.ndim != 2 or pixels.dtype.kind != "u":
        raise damaged_file(
            path, f"a single grey image of unsigned numbers is expected, got {pixels.dtype} {pixels.shape}"
        )
    scaled = np.rint(pixels.astype(np.float32) * (255 / (2 ** int(file.BitsStored) - 1)))
    grey: np.ndarray = np.clip(scaled, 0, 255).astype(np.uint8)
    return 255 - grey if file.PhotometricInterpretation == "MONOCHROME1" else grey
