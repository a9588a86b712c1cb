import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tg_crepe.datasets import ImageDataset, ImageFiles


def make(**changes):
    images = torch.randint(256, (6, 3, 4, 5), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    values = {
        "name": "made",
        "images": images,
        "targets": torch.tensor([0, 1, 2, -1, 1, 0]),
        "train": torch.arange(4),
        "test": torch.tensor([4, 5]),
        "class_names": ("a", "b", "c"),
        "ids": tuple("uvwxyz"),
    }
    return ImageDataset(**{**values, **changes})


def test_a_batch_is_fetched_by_index():
    dataset = make()
    index = torch.tensor([5, 0, 5])
    assert torch.equal(dataset.fetch(index), dataset.images[index])
    assert (len(dataset), dataset.num_classes) == (6, 3)


def test_mean_and_deviation_are_those_of_the_training_images():
    dataset = make()
    pixels = dataset.images[:4].double() / 255
    assert dataset.mean == pytest.approx(pixels.mean(dim=(0, 2, 3)).tolist())
    assert dataset.std == pytest.approx(pixels.std(dim=(0, 2, 3), correction=0).tolist())


def test_statistics_of_blank_images_are_finite():
    dataset = make(images=torch.zeros(6, 1, 2, 2, dtype=torch.uint8))
    assert (dataset.mean, dataset.std) == ((0.0,), (1.0,))
    none = make(train=torch.empty(0, dtype=torch.long))
    assert none.mean == (0.0, 0.0, 0.0)


def test_labels_do_not_enter_images_or_statistics():
    dataset = make()
    poisoned = replace(dataset, targets=torch.full((6,), -1))
    assert torch.equal(poisoned.fetch(torch.arange(6)), dataset.fetch(torch.arange(6)))
    assert (poisoned.mean, poisoned.std) == (dataset.mean, dataset.std)


def test_files_are_decoded_on_access_and_survive_pickling(tmp_path):
    arrays = np.random.default_rng(0).integers(0, 256, (3, 6, 4), dtype=np.uint8)
    paths = tuple(tmp_path / f"{i}.png" for i in range(3))
    for path, array in zip(paths, arrays, strict=True):
        Image.fromarray(array).save(path)
    files = pickle.loads(pickle.dumps(ImageFiles(paths, (6, 4), channels=1)))
    assert files.shape == (3, 1, 6, 4)
    assert np.array_equal(files[torch.tensor([2, 0])][:, 0].numpy(), arrays[[2, 0]])
    assert files[torch.empty(0, dtype=torch.long)].shape == (0, 1, 6, 4)
    paths[1].unlink()
    with pytest.raises(FileNotFoundError, match=r"1.png' is missing"):
        files[torch.tensor([1])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(6, 3, 4, 5)}, "'images' must be uint8"),
        ({"images": torch.zeros(0, 3, 4, 5, dtype=torch.uint8)}, "at least one image"),
        ({"targets": torch.zeros(6)}, "'targets' of 'made' must be torch.int64"),
        ({"targets": torch.zeros(5, dtype=torch.long)}, r"shape \[6\], got torch.int64 \[5\]"),
        ({"targets": torch.tensor([0, 0, 3, 0, 0, 0])}, r"in \[-1, 2\], not so at 2"),
        ({"targets": torch.full((6, 3), 2), "multi_label": True}, r"in \[-1, 1\], not so at 0, 1"),
        ({"train": torch.tensor([0, 6])}, r"'train' must be indices in \[0, 5\], got 0 to 6"),
        ({"train": torch.ones(6, dtype=torch.bool)}, "'train' must be torch.int64 indices"),
        ({"train": torch.tensor([0, 4])}, "'y' stands there twice"),
        ({"val": torch.tensor([0])}, "'u' stands there twice"),
        ({"ids": ("a",) * 6}, "'a' stands there twice"),
        ({"ids": ("a",)}, "'ids' must have one entry for each of 6 images, got 1"),
        ({"groups": ("a",)}, "'groups' must have one entry"),
    ],
)
def test_parts_that_do_not_fit_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)
