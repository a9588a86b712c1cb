"""The package of npm becomes what our own loader reads."""

import json

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'vision'")

import cifar10_from_npm
from PIL import Image

from tg_crepe.datasets import load_cifar10


@pytest.fixture
def package(tmp_path):
    """Six files of three images, and the images and labels that they hold."""
    folder, rng = tmp_path / "package", np.random.default_rng(0)
    folder.mkdir()
    images = rng.integers(0, 256, (18, 32, 32, 3), dtype=np.uint8)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for place, name in enumerate(names):
        Image.fromarray(images[3 * place : 3 * place + 3].reshape(3, 1024, 3)).save(folder / f"{name}.png")
    labels = rng.integers(0, 10, 18).tolist()
    (folder / "train_lables.json").write_text(json.dumps(labels[:15]))
    (folder / "test_lables.json").write_text(json.dumps(labels[15:]))
    return folder, images, labels


def test_the_loader_finds_the_images_and_labels_of_the_package(tmp_path, package):
    folder, images, labels = package
    assert cifar10_from_npm.convert(folder, tmp_path / "data" / "cifar10") == 18
    dataset = load_cifar10(tmp_path / "data", verify=False)
    assert np.array_equal(dataset.images.permute(0, 2, 3, 1).numpy(), images)
    assert dataset.targets.tolist() == labels
    assert (len(dataset.train), len(dataset.test)) == (15, 3)
    assert dataset.class_names == cifar10_from_npm.NAMES


def test_a_label_too_few_is_said(tmp_path, package):
    folder, _, labels = package
    (folder / "train_lables.json").write_text(json.dumps(labels[:14]))
    with pytest.raises(SystemExit, match="a label for each of 15 images"):
        cifar10_from_npm.convert(folder, tmp_path / "data")
