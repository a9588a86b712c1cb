import pytest
import torch

from tg_crepe.datasets import load_mini_imagenet
from tg_crepe.datasets.mini_imagenet import _check_complete, _find_classes


def test_the_real_tables(data_root):
    classes = _find_classes(data_root)
    assert len(classes) == 100
    _check_complete(data_root, classes)
    with pytest.raises(FileNotFoundError, match=r"60000 images are missing, the first is '.*n0153282900000005.jpg'"):
        load_mini_imagenet(data_root)


def test_tables_are_merged_and_split_within_each_class(mini_root):
    dataset = load_mini_imagenet(mini_root, complete=False)
    assert repr(dataset) == "ImageDataset(mini_imagenet (subset), 20 train, 4 test, 3x64x64, 4 classes)"
    assert dataset.targets[dataset.train].bincount().tolist() == [5, 5, 5, 5]
    assert dataset.targets[dataset.test].tolist() == [0, 1, 2, 3]
    assert dataset.ids[0] == "n01532829/n0153282900000001.jpg"
    assert dataset.fetch(dataset.test).shape == (4, 3, 64, 64)


@pytest.mark.parametrize("split", [False, True])
def test_folders_give_the_same_as_tables(mini_root, split):
    before = load_mini_imagenet(mini_root, complete=False, size=84)
    parts = {
        label: part for part in ("train", "val", "test") for label in (mini_root / f"{part}.csv").read_text().split()
    }
    parts = {cell.split(",")[1]: part for cell, part in parts.items() if cell.startswith("n0")}
    images = before.fetch(torch.arange(24))
    for path in before.images.paths:
        label = path.name[:9]
        folder = mini_root / parts[label] / label if split else mini_root / label
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)
    for part in ("train", "val", "test"):
        (mini_root / f"{part}.csv").unlink()
    after = load_mini_imagenet(mini_root, complete=False, size=84)
    assert after.ids == before.ids
    assert torch.equal(after.targets, before.targets)
    assert torch.equal(after.fetch(torch.arange(24)), images)


def test_a_part_is_refused_unless_asked_for(mini_root):
    with pytest.raises(ValueError, match=r"its 4 classes are not the 100 .* complete=False"):
        load_mini_imagenet(mini_root)
