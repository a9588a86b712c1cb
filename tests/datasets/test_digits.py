import torch
from sklearn.datasets import load_digits as sklearn_digits

from tg_crepe.datasets import get_dataset


def test_digits_are_those_of_scikit_learn():
    dataset, digits = get_dataset("digits"), sklearn_digits()
    assert repr(dataset) == "ImageDataset(digits, 1437 train, 360 test, 1x8x8, 10 classes)"
    assert dataset.targets.tolist() == digits.target.tolist()
    assert torch.equal((dataset.images[:, 0].double() * 16 / 255).round(), torch.from_numpy(digits.images))
