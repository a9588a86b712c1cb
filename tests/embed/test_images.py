from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import colour_encoder, write_images
from PIL import Image

from tg_crepe.datasets._open import MOST_PIXELS
from tg_crepe.embed.images import open_image, quiet_pictures


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


def test_a_colour_that_a_file_calls_transparent_is_white(tmp_path):
    image = Image.new("RGB", (4, 4), (9, 8, 7))
    image.putpixel((1, 1), (50, 60, 70))
    image.save(tmp_path / "a.png", transparency=(9, 8, 7))
    shown = pixels(tmp_path / "a.png")
    assert (shown[0, 0].tolist(), shown[1, 1].tolist()) == ([255, 255, 255], [50, 60, 70])


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_a_large_image_of_any_format_is_shrunk_by_a_whole_number(tmp_path, mode):
    steps = np.linspace(0, 255, 2100).astype(np.uint8)
    image = Image.fromarray(np.tile(steps, (2200, 1))).convert(mode)
    image.save(tmp_path / "a.png", compress_level=1)
    shown = pixels(tmp_path / "a.png")
    assert shown.shape == (1100, 1050, 3)
    assert np.abs(shown[0, :, 0].astype(int) - steps[::2].astype(int)).max() <= 2


@pytest.mark.parametrize("ending", ["jpg", "tif", "webp"])
def test_large_images_are_turned_too(tmp_path, ending):
    image = Image.new("RGB", (2400, 2100), (0, 0, 0))
    image.paste((255, 255, 255), (0, 0, 1200, 2100))  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # it belongs on top
    image.save(tmp_path / f"a.{ending}", exif=exif)
    shown = pixels(tmp_path / f"a.{ending}")
    assert shown.shape[0] > shown.shape[1]
    assert shown[: len(shown) // 2 - 4].min() > 240
    assert shown[len(shown) // 2 + 4 :].max() < 15


def test_damaged_exif_data_do_not_hide_an_image(tmp_path):
    image = Image.new("RGB", (6, 6), (1, 200, 3))
    for number, exif in enumerate([b"Exif\0\0MM", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0" + bytes(40)]):
        image.save(tmp_path / f"{number}.png", exif=exif)
        assert pixels(tmp_path / f"{number}.png")[0, 0].tolist() == [1, 200, 3]


def test_two_pictures_of_a_phone_in_one_file_are_the_first(tmp_path):
    first, second = Image.new("RGB", (16, 16), (250, 0, 0)), Image.new("RGB", (16, 16), (0, 0, 250))
    first.save(tmp_path / "a.mpo", save_all=True, append_images=[second])
    (tmp_path / "a.mpo").rename(tmp_path / "a.jpg")
    assert np.abs(pixels(tmp_path / "a.jpg").astype(int) - [250, 0, 0]).max() < 12


def test_a_program_that_is_called_an_image_is_not_run(tmp_path, monkeypatch):
    import subprocess

    monkeypatch.setattr(subprocess, "check_call", lambda *a, **b: pytest.fail("a program was started"))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **b: pytest.fail("a program was started"))
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(ValueError, match="not a readable image"):
        open_image(tmp_path / "a.png")


def test_threads_leave_the_filters_of_warnings_as_they_were(tmp_path):
    import warnings
    from concurrent.futures import ThreadPoolExecutor

    from tg_crepe.embed import embed

    write_images(tmp_path, 40)
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_image, sorted(tmp_path.iterdir())))
    embed(tmp_path, colour_encoder(batch_size=4))
    assert warnings.filters == before


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_a_file_with_any_bytes_changed_is_an_image_or_one_line(tmp_path, kind):
    whole, rng = bytearray(broken(kind)), np.random.default_rng(0)
    path = tmp_path / "a.png"
    with quiet_pictures():
        for _ in range(60):
            changed = whole.copy()
            for place in rng.integers(0, min(len(whole), rng.choice([40, 400, 10**6])), rng.integers(1, 6)):
                changed[place] = rng.integers(256)
            path.write_bytes(changed[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else changed)
            try:
                said = open_image(path).mode
            except ValueError as error:
                said = str(error)
            assert said == "RGB" or said.startswith(f"'{path}' cannot be used: ")
            assert "\n" not in said


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
