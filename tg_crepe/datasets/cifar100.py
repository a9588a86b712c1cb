from __future__ import annotations

import os

from tg_crepe._files import check_root
from tg_crepe.datasets._cifar import load_cifar
from tg_crepe.datasets.image_dataset import ImageDataset

_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def load_cifar100(root: str | os.PathLike[str], verify: bool = True) -> ImageDataset:
    r"""CIFAR-100: 50,000 training and 10,000 test images, 32x32 in colour, the 100 fine classes.

    Args:
        root (str or path): The folder :obj:`cifar-100-python`, or one that holds it, at once or in :obj:`cifar100/`.
        verify (bool, optional): Whether the files must be the official ones by their md5. (default: :obj:`True`)
    """
    return load_cifar(
        name="cifar100",
        root=check_root(root),
        folders=("", "cifar-100-python", "cifar100/cifar-100-python"),
        md5=_MD5,
        meta=("meta", "fine_label_names"),
        label_key="fine_labels",
        num_classes=100,
        source="CIFAR-100 python version, https://www.cs.toronto.edu/~kriz/cifar.html",
        verify=verify,
    )
