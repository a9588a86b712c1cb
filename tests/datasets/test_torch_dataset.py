import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from tg_crepe.datasets import from_torch_dataset


def test_a_tensor_dataset(tmp_path):
    images = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 1, 0])
    dataset = from_torch_dataset(TensorDataset(images[:3], labels[:3]), TensorDataset(images[3:], labels[3:]), "mine")
    assert repr(dataset) == "ImageDataset(mine, 3 train, 2 test, 3x4x4, 3 classes)"
    assert torch.equal(dataset.images, (images * 255).round().byte())
    assert torch.equal(dataset.targets, labels)


def test_items_may_be_pil_images_arrays_or_tensors_with_or_without_label():
    array = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    items = [(Image.fromarray(array), 1), (array, None), (torch.from_numpy(array).permute(2, 0, 1),), array]
    dataset = from_torch_dataset(items)
    assert all(torch.equal(image, dataset.images[0]) for image in dataset.images)
    assert dataset.targets.tolist() == [1, -1, -1, -1]


def test_class_names_are_those_of_the_dataset():
    class Named(list):
        classes = ("cat", "dog", "cow")

    assert from_torch_dataset(Named([(torch.zeros(1, 2, 2), 1)])).class_names == ("cat", "dog", "cow")


def test_several_labels_an_image():
    dataset = from_torch_dataset([(torch.zeros(1, 2, 2), torch.tensor([1, 0])), (torch.zeros(1, 2, 2), None)])
    assert dataset.multi_label
    assert dataset.targets.tolist() == [[1, 0], [-1, -1]]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "'train' must hold at least one image"),
        (3, "'train' must be a torch Dataset"),
        ([(torch.zeros(1, 2, 2), 0), (torch.zeros(1, 3, 3), 0)], "item 1 of train' cannot be used: its shape"),
        ([(torch.full((1, 2, 2), torch.nan), 0)], "item 0 of train' .* NaN or infinity"),
        ([(torch.full((1, 2, 2), 2.0), 0)], r"must be in \[0, 1\], got 2.0"),
        ([(torch.zeros(2, 2, 2), 0)], "must have 1 or 3 channels"),
        ([(torch.zeros(1, 2, 2), "cat")], "item 0' .* its label must be an integer"),
        ([(torch.zeros(1, 2, 2), 0.5)], "labels must be integers"),
        ([(torch.zeros(1, 2, 2), -2)], r"labels must be in \[-1"),
        ([(torch.zeros(1, 2, 2, dtype=torch.long), 0)], "images must be uint8 or floating point"),
    ],
)
def test_bad_items_are_named(items, message):
    with pytest.raises(ValueError, match=message):
        from_torch_dataset(items)
