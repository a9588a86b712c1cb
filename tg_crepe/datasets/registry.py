from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from tg_crepe._checks import check_choice
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.medmnist import MEDMNIST

#: The data sets by name: the name is that of the file in this folder, and with ``load_`` that of the function in it.
DATASETS = (
    "digits",
    "fashion_mnist",
    "cifar10",
    "cifar10_subset",
    "cifar100",
    "mini_imagenet",
    "chestxray14",
    "chestxray14_subset",
    "cbis_ddsm",
    "image_folder",
    "npz",
    *MEDMNIST,
)


def get_dataset(name: str, root: str | os.PathLike[str] | None = None, **options: Any) -> ImageDataset:
    r"""Loads a data set by its name.

    .. code-block:: python

        from tg_crepe.datasets import get_dataset

        dataset = get_dataset("pneumoniamnist", root="data")

    Args:
        name (str): One of :data:`DATASETS`; the two-dimensional sets of MedMNIST go by their own names.
        root (str or path, optional): Where its files are; only :obj:`"digits"` has none. (default: :obj:`None`)
        **options: The other arguments of its loader.
    """
    check_choice("name", name, DATASETS)
    if (root is None) != (name == "digits"):
        expected = "must not be given: its images come with scikit-learn" if root else "must say where its files are"
        raise ValueError(f"'root' of '{name}' {expected}, got {root!r}")
    if name in MEDMNIST:
        options, name = {"flag": name, **options}, "medmnist"
    load = getattr(import_module(f"tg_crepe.datasets.{name}"), f"load_{name}")
    dataset: ImageDataset = load(**options) if root is None else load(root, **options)
    return dataset
