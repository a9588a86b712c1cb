from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from PIL import Image

from tg_crepe.datasets._open import MOST_PIXELS
from tg_crepe.embed.images import open_image


def pixels(path: Path) -> np.ndarray:
    image = open_image(path)
    assert image.mode == "RGB"
    return np.asarray(image)


def test_exif_rotation_is_undone(tmp_path):
    image = Image.new("RGB", (4, 2), (0, 0, 0))
    image.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: a viewer turns the image by 90 degrees clockwise
    image.save(tmp_path / "a.png", exif=exif)
    shown = pixels(tmp_path / "a.png")
    assert shown.shape == (4, 2, 3)
    assert shown[0, 1].tolist() == [255, 0, 0]


def test_cmyk_has_the_colours_of_a_viewer(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg")
    assert np.abs(pixels(tmp_path / "a.jpg").astype(int) - [255, 0, 0]).max() < 12


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path, ending):
    grey = np.array([[0, 257, 32896, 65535]], np.uint16)
    Image.fromarray(grey).save(tmp_path / f"a.{ending}")
    assert pixels(tmp_path / f"a.{ending}")[0, :, 0].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_mode_becomes_colour(tmp_path, mode):
    Image.new("L", (5, 5), 255).convert(mode).save(tmp_path / "a.png")
    assert pixels(tmp_path / "a.png").tolist() == np.full((5, 5, 3), 255).tolist()


@pytest.mark.parametrize("ending", ["png", "webp", "gif"])
def test_what_is_transparent_is_white(tmp_path, ending):
    image = Image.new("RGBA", (6, 6), (0, 0, 0, 0))
    image.putpixel((2, 2), (0, 0, 0, 255))
    image.save(tmp_path / f"a.{ending}", lossless=True)
    shown = pixels(tmp_path / f"a.{ending}")
    assert shown[0, 0].tolist() == [255, 255, 255]
    assert shown[2, 2].max() < 30


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tif"])
def test_of_an_animation_the_first_image_is_taken(tmp_path, ending):
    first, second = Image.new("RGB", (6, 6), (255, 0, 0)), Image.new("RGB", (6, 6), (0, 0, 255))
    first.save(tmp_path / f"a.{ending}", save_all=True, append_images=[second])
    assert np.abs(pixels(tmp_path / f"a.{ending}").astype(int) - [255, 0, 0]).max() < 12


def test_a_large_photograph_is_unpacked_to_a_fraction(tmp_path):
    Image.new("RGB", (8192, 4096), (10, 200, 30)).save(tmp_path / "a.jpg")
    shown = pixels(tmp_path / "a.jpg")
    assert shown.shape == (1024, 2048, 3)
    assert np.abs(shown.astype(int) - [10, 200, 30]).max() < 12


def test_an_image_above_the_limit_of_pillow_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    Image.new("L", (30, 30), 7).save(tmp_path / "a.png")
    assert pixels(tmp_path / "a.png").shape == (30, 30, 3)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_a_file_that_claims_to_be_enormous_is_refused(tmp_path, monkeypatch):
    Image.new("L", (30, 30)).save(tmp_path / "a.png")
    monkeypatch.setattr("tg_crepe.datasets._open.MOST_PIXELS", 100)
    with pytest.raises(ValueError, match=r"a\.png' cannot be used: it claims to have more than"):
        open_image(tmp_path / "a.png")
    assert MOST_PIXELS > 10**9


def broken(kind: str) -> bytes:
    import io

    data = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(data, kind)
    return data.getvalue()


BAD = {
    "empty.png": b"",
    "text.jpg": b"no image at all",
    "cut.png": broken("PNG")[:700],
    "cut.jpg": broken("JPEG")[:700],
    "cut.gif": broken("GIF")[:300],
    "cut.tif": broken("TIFF")[:200],
    "cut.webp": broken("WEBP")[:200],
    "head.png": broken("PNG")[:20],
    "noise.bmp": b"BM" + bytes(range(60)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_one_line_with_its_name(tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(ValueError, match=f"{name}' cannot be used") as caught:
        open_image(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_floating_point_pixels_have_no_stated_range(tmp_path):
    Image.fromarray(np.ones((3, 3), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match="floating point"):
        pixels(tmp_path / "a.tif")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="is missing"):
        pixels(tmp_path / "a.png")
