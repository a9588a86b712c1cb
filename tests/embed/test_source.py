from __future__ import annotations

import os

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="images need the extra 'vision'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

from embed_inputs import write_images
from PIL import Image

from tg_crepe.datasets import load_digits, load_image_folder
from tg_crepe.embed import open_source


def test_a_folder_is_named_by_paths_in_it(tmp_path):
    write_images(tmp_path / "in" / "a", 2)
    write_images(tmp_path / "in" / "b", 1)
    (tmp_path / "in" / "notes.txt").write_text("no image")
    source = open_source(tmp_path / "in")
    assert source.ids == ["a/000.png", "a/001.png", "b/000.png"]
    assert source.kind == "images"
    assert source.read(2).size == (12, 12)


def test_a_fingerprint_changes_with_a_file_and_a_name(tmp_path):
    write_images(tmp_path, 3)
    first = open_source(tmp_path).fingerprint()
    assert open_source(tmp_path).fingerprint() == first
    os.utime(tmp_path / "001.png", (1, 1))
    second = open_source(tmp_path).fingerprint()
    (tmp_path / "001.png").rename(tmp_path / "0011.png")
    third = open_source(tmp_path).fingerprint()
    assert len({first, second, third}) == 3


def test_a_name_that_is_no_text_is_refused(tmp_path):
    write_images(tmp_path, 1)
    try:
        os.rename(tmp_path / "000.png", os.fsencode(tmp_path) + b"/\xff.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(ValueError, match=r"its name is not UTF-8") as caught:
        open_source(tmp_path).read(0)
    str(caught.value).encode()  # the line itself can be printed


def test_images_of_every_form_are_read():
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    forms = [
        Image.fromarray(pixels),
        pixels,
        torch.from_numpy(pixels).permute(2, 0, 1),
        pixels / 255,
        (Image.fromarray(pixels), 3),
    ]
    source = open_source(forms, "images")
    for place in range(len(forms)):
        assert np.asarray(source.read(place)).tolist() == pixels.tolist()
    assert np.asarray(open_source([pixels[:, :, 0]], "images").read(0)).shape == (4, 4, 3)


def test_data_sets_of_this_package_are_sources(tmp_path):
    digits = open_source(load_digits())
    assert len(digits) == 1797
    assert np.asarray(digits.read(0))[:, :, 0].tolist() == load_digits().images[0, 0].tolist()
    write_images(tmp_path, 3, side=20)
    files = open_source(load_image_folder(tmp_path, size=8))
    assert files.ids == ["000.png", "001.png", "002.png"]
    assert files.read(0).size == (20, 20)  # the model's own preprocessing resizes, and nothing before it


def test_a_torch_dataset_is_a_source():
    dataset = torch.utils.data.TensorDataset(torch.zeros(5, 3, 4, 4, dtype=torch.uint8), torch.arange(5))
    source = open_source(dataset)
    assert (len(source), source.kind, source.read(4).size) == (5, "images", (4, 4))


def test_an_npz_file_of_images_is_a_source(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 5, 5), np.uint8), ids=np.array(["x", "y", "z"]))
    source = open_source(tmp_path / "a.npz")
    assert source.ids == ["x", "y", "z"]
    assert source.read(0).size == (5, 5)
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 5)))
    with pytest.raises(ValueError, match="there is nothing to embed"):
        open_source(tmp_path / "b.npz")


def test_strings_are_files_or_texts_as_the_model_reads(tmp_path):
    write_images(tmp_path, 1)
    path = str(tmp_path / "000.png")
    assert open_source([path], "texts").read(0) == path
    assert open_source([path], "images").read(0).size == (12, 12)
    assert open_source(["a text"]).kind == "texts"


def test_strings_that_end_as_images_are_files(tmp_path):
    write_images(tmp_path, 2)
    assert open_source([str(path) for path in sorted(tmp_path.iterdir())]).kind == "images"
    assert open_source(sorted(tmp_path.iterdir())).read(1).size == (12, 12)


def test_marks_tell_images_of_the_same_bytes_apart():
    grey = np.arange(16, dtype=np.uint8)
    first, second = Image.fromarray(grey.reshape(4, 4)).convert("P"), Image.fromarray(grey.reshape(4, 4)).convert("P")
    second.putpalette(list(range(255, -1, -1)) * 3)
    turned = Image.fromarray(grey.reshape(4, 4))
    turned.getexif()[0x0112] = 6
    forms = [
        grey.reshape(4, 4),
        grey.reshape(2, 8),
        grey.reshape(2, 8).view(np.int8),
        Image.fromarray(grey.reshape(4, 4)),
        turned,
        first,
        second,
    ]
    source = open_source(forms, "images")
    assert len({source.mark(place) for place in range(len(forms))}) == len(forms)


def test_a_file_in_bytes_is_an_image_as_hugging_face_keeps_it(tmp_path):
    write_images(tmp_path, 1)
    content = (tmp_path / "000.png").read_bytes()
    forms = [{"bytes": content, "path": None}, {"bytes": None, "path": str(tmp_path / "000.png")}, content]
    source = open_source(forms, "images")
    shown = [np.asarray(source.read(place)).tolist() for place in range(3)]
    assert shown[0] == shown[1] == shown[2]


def test_a_text_with_half_a_character_is_refused():
    with pytest.raises(ValueError, match="half a character"):
        open_source(["a \ud800"]).read(0)


def test_frames_and_series_of_pandas_are_sources():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"id": ["u", "v"], "text": ["one", "two"], "label": [0, 1]})
    source = open_source(frame)
    assert (source.ids, source.read(1), source.kind) == (["u", "v"], "two", "texts")
    assert open_source(frame.set_index("id")["text"]).ids == ["u", "v"]
    assert open_source(frame.rename(columns={"text": "words"}), column="words").read(0) == "one"
    with pytest.raises(ValueError, match="'column' must say which"):
        open_source(frame.rename(columns={"text": "words"}))
    with pytest.raises(ValueError, match="'column' must be one of id, text, label, got 'no'"):
        open_source(frame, column="no")


def test_sets_of_hugging_face_are_sources():
    datasets = pytest.importorskip("datasets", reason="the package 'datasets' is not installed")
    if not hasattr(datasets, "Dataset"):  # a folder of these tests has the name
        pytest.skip("the package 'datasets' is not installed")
    texts = open_source(datasets.Dataset.from_dict({"text": ["one", "two"], "id": ["a", "b"]}))
    assert (texts.ids, texts.read(1)) == (["a", "b"], "two")
    images = datasets.Dataset.from_dict(
        {"image": [Image.new("L", (6, 6), 9)]}, datasets.Features(image=datasets.Image())
    )
    assert np.asarray(open_source(images).read(0)).tolist() == np.full((6, 6, 3), 9).tolist()


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ([], None, "must hold images, got none"),
        (3, None, "'source' must be a path, a list"),
        ("no/where", None, "is missing"),
        (["a"], "sounds", "'kind' must be one of"),
    ],
)
def test_what_is_no_source_is_said(source, kind, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_source(source, kind)


def test_a_model_of_the_other_kind_is_refused(tmp_path):
    write_images(tmp_path, 1)
    with pytest.raises(ValueError, match="'model' must read images"):
        open_source(tmp_path, "texts")
