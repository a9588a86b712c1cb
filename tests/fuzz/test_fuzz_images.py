"""Any image file: a picture in colour of its own size, or one clear line."""

import io
import tempfile
from pathlib import Path

import numpy as np
from fuzz_strategies import fuzzed
from hypothesis import strategies as st
from PIL import Image

from tg_crepe.datasets._decode import decode_image, image_size
from tg_crepe.embed.images import open_image


@st.composite
def pictures(draw):
    """The bytes of an image: any mode and format, turned by EXIF, animated, cut, with bytes changed, or nothing."""
    kind = draw(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "TGA"]))
    modes = {
        "JPEG": ["L", "RGB", "CMYK"],
        "WEBP": ["RGB", "RGBA"],
        "PPM": ["L", "RGB"],
        "TGA": ["RGB"],
        "ICO": ["RGBA"],
    }
    any_mode = ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"] if kind == "PNG" else ["1", "L", "P", "RGB"]
    mode = draw(st.sampled_from(modes.get(kind, ["L", "RGB", "CMYK", "I;16", "F"] if kind == "TIFF" else any_mode)))
    width, height = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    noise = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, (height, width, 4), dtype=np.uint8)
    image = Image.new(mode, (width, height)) if mode in ("I;16", "F") else Image.fromarray(noise, "RGBA").convert(mode)
    options = {}
    if kind in ("JPEG", "PNG", "TIFF", "WEBP") and draw(st.booleans()):
        exif = Image.Exif()
        exif[0x0112] = draw(st.integers(0, 9))
        options["exif"] = exif
    if kind in ("GIF", "TIFF", "WEBP") and draw(st.booleans()):
        options |= {"save_all": True, "append_images": [image.copy()]}
    data = io.BytesIO()
    image.save(data, kind, **options)
    content = bytearray(data.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.sampled_from([None, None, None, len(content) // 2, 12, 0]))])


def claim(content):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "a.png")
        path.write_bytes(content)
        for reader in (image_size, open_image, lambda path: decode_image(path, (5, 7), 3)):
            try:
                found = reader(path)
            except ValueError as error:
                assert str(error).startswith(f"'{path}' cannot be used")
                assert "\n" not in str(error)
                continue
            if isinstance(found, Image.Image):
                assert found.mode == "RGB"
                assert min(found.size) >= 1
            elif not isinstance(found, tuple):
                assert found.shape == (3, 5, 7)
        assert [item.name for item in Path(place).iterdir()] == ["a.png"]


test_images_quickly, test_images_at_length = fuzzed(120, content=pictures())(claim)
