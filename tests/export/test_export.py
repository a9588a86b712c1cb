"""Labels of a run as other tools read them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import write_images

from tg_crepe.embed import open_source
from tg_crepe.export import (
    fiftyone_labels,
    hugging_face_dataset,
    items_of_run,
    label_studio_config,
    label_studio_tasks,
)
from tg_crepe.export.hugging_face import write_parquet
from tg_crepe.runs import RunFolder, RunResult

NAMES = ["cat & dog", '<b>"x"</b>']


def make_run(folder: Path, ids: list[str], label: list[int], findings: bool = False) -> RunFolder:
    """A run of two classes in which the first item came with its label."""
    run = RunFolder.create(folder / "run", "propagate", {})
    count = len(ids)
    numbers = np.eye(2, dtype=np.int64)[label] if findings else np.array(label)
    run.write_result(
        RunResult(
            ids=np.array(ids),
            label=numbers,
            prob=np.full((count, 2), 0.5),
            certainty=np.linspace(1, 0.25, count),
            reached=np.array(label) >= 0,
            labelled=np.arange(count) == 0,
            class_names=np.array(NAMES),
        )
    )
    return run


@pytest.fixture
def images(tmp_path):
    """Four images, of which the last is out of reach of any label."""
    write_images(tmp_path / "my images" / "a#1", 4)
    source = open_source(tmp_path / "my images")
    return items_of_run(make_run(tmp_path, source.ids[::-1], [1, 0, 1, -1]), source)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\nu,one\nv,two\nw,three\n")
    pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")
    return items_of_run(make_run(tmp_path / "texts", ["w", "u", "v"], [0, 1, 0]), open_source(tmp_path / "a.csv"))


def test_given_labels_are_annotations_and_inferred_ones_predictions(images):
    tasks = label_studio_tasks(images)
    assert [("annotations" in task, "predictions" in task) for task in tasks] == [
        (True, False),
        (False, True),
        (False, True),
        (False, False),
    ]
    prediction = tasks[1]["predictions"][0]
    assert prediction["score"] == 0.75
    assert prediction["result"][0]["value"] == {"choices": [NAMES[0]]}
    json.dumps(tasks, allow_nan=False)


def test_addresses_of_images_are_those_of_local_files(images):
    tasks = label_studio_tasks(images)
    assert tasks[0]["data"]["image"] == "/data/local-files/?d=my%20images/a%231/003.png"
    assert unquote(tasks[0]["data"]["image"]).endswith(images.ids[0])
    assert label_studio_tasks(images, "https://x/")[0]["data"]["image"] == "https://x/a%231/003.png"


def test_the_interface_names_what_the_tasks_hold(images, texts):
    for items, field in ((images, "image"), (texts, "text")):
        page = ElementTree.fromstring(label_studio_config(items))
        item, control = page
        task = next(task for task in label_studio_tasks(items) if "predictions" in task)
        result = task["predictions"][0]["result"][0]
        assert item.attrib["value"] == f"${field}"
        assert field in task["data"]
        assert (control.attrib["name"], item.attrib["name"]) == (result["from_name"], result["to_name"])
        assert [choice.attrib["value"] for choice in control] == NAMES


def test_fiftyone_finds_every_image_by_its_place(images, texts):
    content = fiftyone_labels(images)
    assert content["classes"] == NAMES
    assert [Path(place).is_file() and Path(place).is_absolute() for place in content["labels"]] == [True] * 4
    first, second, _, last = content["labels"].values()
    assert first == {"label": 1, "confidence": 1.0, "attributes": {"given": True}}
    assert second == {"label": 0, "confidence": 0.75, "attributes": {"given": False}}
    assert last is None
    with pytest.raises(ValueError, match="FiftyOne shows images in files"):
        fiftyone_labels(texts)


@pytest.mark.filterwarnings("default")  # of the library
def test_a_set_of_hugging_face_has_classes_and_images_and_is_a_source_again(tmp_path, images, texts):
    datasets = pytest.importorskip("datasets", reason="it comes with the extra 'huggingface'")
    if not hasattr(datasets, "Dataset"):  # a folder of these tests has the name
        pytest.skip("it comes with the extra 'huggingface'")
    found = hugging_face_dataset(images)
    assert found.features["label"].names == NAMES
    assert found["label"][:] == [1, 0, 1, None]
    assert found[0]["image"].size == (12, 12)
    again = open_source(found)
    assert (again.ids, again.kind) == (images.ids, "images")
    write_parquet(images, tmp_path / "a.parquet")
    loaded = datasets.Dataset.from_parquet(str(tmp_path / "a.parquet"), cache_dir=str(tmp_path / "cache"))
    assert loaded.features == found.features
    pytest.importorskip("pyarrow")
    from_file = open_source(tmp_path / "a.parquet")
    assert np.asarray(from_file.read(2)).tolist() == np.asarray(again.read(2)).tolist()
    assert hugging_face_dataset(texts)[:2]["text"] == ["three", "one"]


def test_what_cannot_be_exported_is_said(tmp_path):
    write_images(tmp_path / "images", 2)
    source = open_source(tmp_path / "images")
    with pytest.raises(ValueError, match=r"no item for 1 of the run's, the first is 'no\.png'"):
        items_of_run(make_run(tmp_path, ["000.png", "no.png"], [0, 1]), source)
    with pytest.raises(ValueError, match="one class an item, got findings"):
        items_of_run(make_run(tmp_path / "b", ["000.png", "001.png"], [0, 1], findings=True))
    with pytest.raises(ValueError, match=r"'label' must be in \[-1, 1\]"):
        items_of_run(make_run(tmp_path / "c", ["000.png", "001.png"], [0, 7]))
