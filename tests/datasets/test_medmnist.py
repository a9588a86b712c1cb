import hashlib
import importlib.util

import numpy as np
import pytest

from tg_crepe.datasets import get_dataset, load_medmnist


@pytest.mark.parametrize(
    ("flag", "counts", "digest"),
    [
        ("pneumoniamnist", ([1214, 3494], [135, 389], [234, 390]), "fecece299d18c5022fd2bd3672af1038"),
        ("breastmnist", ([147, 399], [21, 57], [42, 114]), "ac9fe929a2a0ce77c5257d2d5e06c46e"),
    ],
)
def test_the_real_files(data_root, flag, counts, digest):
    dataset = get_dataset(flag, data_root)
    for index, expected in zip((dataset.train, dataset.val, dataset.test), counts, strict=True):
        assert dataset.targets[index].bincount().tolist() == expected
    assert hashlib.md5(dataset.images.numpy().tobytes()).hexdigest() == digest
    assert dataset.images.shape[1:] == (1, 28, 28)
    assert not dataset.multi_label


@pytest.mark.skipif(importlib.util.find_spec("medmnist") is None, reason="needs the medmnist package")
def test_names_of_classes_come_from_the_package(data_root):
    assert load_medmnist(data_root, "pneumoniamnist").class_names == ("normal", "pneumonia")
    assert load_medmnist(data_root, "breastmnist").class_names == ("malignant", "normal, benign")


def test_without_the_package_classes_are_numbers(medmnist_root, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    dataset = load_medmnist(medmnist_root, "pneumoniamnist")
    assert dataset.class_names == ("0", "1")
    assert repr(dataset) == "ImageDataset(pneumoniamnist, 8 train, 2 val, 4 test, 1x28x28, 2 classes)"


def test_chestmnist_is_multi_label_and_colour_is_turned_to_channels_first(tmp_path, medmnist_arrays):
    for part in ("train", "val", "test"):
        grey = medmnist_arrays[f"{part}_images"]
        medmnist_arrays[f"{part}_images"] = np.stack([grey, grey // 2, grey // 3], axis=-1)
        medmnist_arrays[f"{part}_labels"] = np.eye(14, dtype=np.uint8)[: len(grey)]
    np.savez(tmp_path / "chestmnist.npz", **medmnist_arrays)
    dataset = load_medmnist(tmp_path, "chestmnist", verify=False)
    assert dataset.multi_label
    assert dataset.targets.shape == (14, 14)
    assert np.array_equal(dataset.fetch(dataset.train)[:, 1].numpy(), medmnist_arrays["train_images"][..., 1])


@pytest.mark.parametrize(("option", "value"), [("flag", "organmnist3d"), ("size", 32)])
def test_bad_options_are_named(medmnist_root, option, value):
    with pytest.raises(ValueError, match=f"'{option}' must be one of .* got {value!r}"):
        load_medmnist(medmnist_root, **{"flag": "pneumoniamnist", option: value})
