import numpy as np
import pytest
import torch

from tg_crepe.datasets import get_dataset, load_npz


def test_labels_and_split_are_read(npz_path):
    dataset = get_dataset("npz", npz_path)
    assert repr(dataset) == "ImageDataset(mine, 4 train, 2 test, 3x8x8, 3 classes)"
    assert dataset.targets.tolist() == [0, 1, 2, -1, 1, 0]
    with np.load(npz_path) as file:
        assert np.array_equal(dataset.images.numpy(), file["images"].transpose(0, 3, 1, 2))


def test_images_are_enough(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 5)))
    dataset = load_npz(tmp_path / "a.npz")
    assert dataset.images.shape == (3, 1, 4, 5)
    assert dataset.targets.tolist() == [-1, -1, -1]
    assert dataset.train.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 1, 4, 5), (2, 4, 5, 1)])
def test_fractions_are_scaled_to_bytes_in_every_layout(tmp_path, shape):
    np.savez(tmp_path / "a.npz", images=np.linspace(0, 1, 40, dtype=np.float32).reshape(shape))
    expected = torch.linspace(0, 1, 40).mul(255).round().view(2, 1, 4, 5)
    assert torch.equal(load_npz(tmp_path / "a.npz").images.float(), expected)


def test_several_labels_an_image_with_unknown_entries(tmp_path):
    labels = np.array([[1, 0, np.nan], [0, -1, 1]])
    arrays = {"class_names": np.array(["a", "b", "c"]), "ids": np.array(["x", "y"]), "groups": np.array([7, 7])}
    np.savez(
        tmp_path / "a.npz", images=np.zeros((2, 4, 4), np.uint8), labels=labels, train=np.array([True, False]), **arrays
    )
    dataset = load_npz(tmp_path / "a.npz")
    assert dataset.targets.tolist() == [[1, 0, -1], [0, -1, 1]]
    assert (dataset.class_names, dataset.ids, dataset.groups) == (("a", "b", "c"), ("x", "y"), ("7", "7"))
    assert dataset.train.tolist() == [0]


def test_every_array_may_be_left_as_it_was_saved(tmp_path):
    arrays = {"images": np.zeros((3, 4, 4), np.uint8), "labels": np.array([[0], [1], [1]]), "val": np.array([2])}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    dataset = load_npz(tmp_path / "a.npz")
    assert dataset.targets.tolist() == [0, 1, 1]
    assert (dataset.train.tolist(), dataset.val.tolist()) == ([0, 1], [2])
