"""Files that call themselves images: what is opened, and what is not even looked at."""

import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from PIL import Image

from tg_crepe.datasets._decode import decode_image, image_size
from tg_crepe.datasets._open import FORMATS
from tg_crepe.embed.images import open_image
from tg_crepe.graph.sparse import sparse_csr

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(hello) print\n%%EOF\n"
READERS = {"size": image_size, "bytes": lambda path: decode_image(path, (8, 8), 3), "viewer": open_image}


@pytest.mark.parametrize("reader", READERS)
def test_postscript_that_is_called_an_image_reaches_no_program(tmp_path, monkeypatch, reader):
    def never(*_, **__):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    (tmp_path / "evil.png").write_bytes(POSTSCRIPT)
    with pytest.raises(ValueError, match=r"evil\.png' cannot be used: it is not a readable image"):
        READERS[reader](tmp_path / "evil.png")


@pytest.mark.parametrize("kind", ["ICO", "TGA", "PCX", "SGI", "JPEG2000", "ICNS", "DDS"])
def test_formats_that_are_not_on_the_list_are_refused_whatever_the_name(tmp_path, kind):
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png", kind)
    assert kind not in FORMATS
    with pytest.raises(ValueError, match="not a readable image"):
        open_image(tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "MPO"])
def test_formats_on_the_list_are_read_whatever_the_name(tmp_path, kind):
    image = Image.new("RGB", (16, 8), (200, 10, 10))
    image.save(tmp_path / "a.bin", kind, **({"save_all": True, "append_images": [image]} if kind == "MPO" else {}))
    assert image_size(tmp_path / "a.bin") == (8, 16)
    assert open_image(tmp_path / "a.bin").size == (16, 8)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_too_many_pixels_is_refused_by_its_header(tmp_path, monkeypatch, reader):
    monkeypatch.setattr("tg_crepe.datasets._open.MOST_PIXELS", 100)
    Image.new("L", (11, 10)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="claims to have more than 100 pixels"):
        READERS[reader](tmp_path / "a.png")


def test_images_and_matrices_in_threads_leave_the_filters_of_warnings_as_they_were(tmp_path):
    path, end = tmp_path / "a.png", time.monotonic() + 0.5
    Image.new("RGB", (8, 8)).save(path)
    rowptr, col, value = torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1)

    def work(call):
        while time.monotonic() < end:
            call()

    calls = [lambda: open_image(path), lambda: sparse_csr(rowptr, col, value, (1, 1))]
    calls[1]()
    before, every = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, calls))
    finally:
        sys.setswitchinterval(every)
    assert warnings.filters == before
