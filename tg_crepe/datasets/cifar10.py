from __future__ import annotations

import os

from tg_crepe._files import check_root
from tg_crepe.datasets._cifar import load_cifar
from tg_crepe.datasets.image_dataset import ImageDataset

_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}


def load_cifar10(root: str | os.PathLike[str], verify: bool = True) -> ImageDataset:
    r"""CIFAR-10: 50,000 training and 10,000 test images, 32x32 in colour, ten classes.

    Args:
        root (str or path): The folder :obj:`cifar-10-batches-py`, or one that holds it, at once or in :obj:`cifar10/`.
        verify (bool, optional): Whether the files must be the official ones by their md5. (default: :obj:`True`)
    """
    return load_cifar(
        name="cifar10",
        root=check_root(root),
        folders=("", "cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
        md5=_MD5,
        meta=("batches.meta", "label_names"),
        label_key="labels",
        num_classes=10,
        source="CIFAR-10 python version, https://www.cs.toronto.edu/~kriz/cifar.html",
        verify=verify,
    )
