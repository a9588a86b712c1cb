from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import check_root, damaged_file, find_file, read_table
from tg_crepe.datasets._arrays import target_tensor
from tg_crepe.datasets._decode import decode_image
from tg_crepe.datasets.image_dataset import ImageDataset

_SIDE = 32
_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FOLDERS = ("", "cifar10")
_SOURCE = (
    "whoever packed the other files of this folder; the whole set is at https://www.cs.toronto.edu/~kriz/cifar.html"
)


def _read_labels(path: Path) -> Tensor:
    rows = read_table(path, ("index", "label", "class"), exact=True)
    for number, row in enumerate(rows):
        known = row["label"].isdigit() and int(row["label"]) < len(_CLASSES)
        if row["index"] != str(number) or not known or _CLASSES[int(row["label"])] != row["class"]:
            raise damaged_file(
                path, f"row {number} must be {number}, a label 0 to 9 and its class, got {list(row.values())}"
            )
    return target_tensor(np.array([int(row["label"]) for row in rows]), len(rows), str(path), len(_CLASSES))[0]


def _read_strip(path: Path, count: int) -> Tensor:
    strip = decode_image(path, None, channels=3)
    if tuple(strip.shape[1:]) != (_SIDE * count, _SIDE):
        got = f"{strip.shape[1]}x{strip.shape[2]}"
        raise damaged_file(path, f"{count} labels need a strip of {_SIDE * count}x{_SIDE} pixels, got {got}")
    return strip.view(3, count, _SIDE, _SIDE).transpose(0, 1).contiguous()


def load_cifar10_subset(root: str | os.PathLike[str]) -> ImageDataset:
    r"""A part of CIFAR-10 packed losslessly: the official first training batch and the first 2,000 test images.

    Each part is a PNG strip, 32 pixels wide with one image below the other, and a table :obj:`index,label,class`.
    Figures on it cannot be compared with published ones, hence its name :obj:`"cifar10 (subset)"`.

    Args:
        root (str or path): The folder of :obj:`train_batch1_10000.png`, :obj:`test_first_2000.png` and their
            :obj:`_labels.csv`, or one that holds them in :obj:`cifar10/`.
    """
    folder, images, labels = check_root(root), [], []
    for part in ("train_batch1_10000", "test_first_2000"):
        labels.append(_read_labels(find_file(folder, _FOLDERS, (f"{part}_labels.csv",), _SOURCE)))
        images.append(_read_strip(find_file(folder, _FOLDERS, (f"{part}.png",), _SOURCE), len(labels[-1])))
    num_train, num_test = map(len, labels)
    return ImageDataset(
        name="cifar10 (subset)",
        images=torch.cat(images),
        targets=torch.cat(labels),
        train=torch.arange(num_train),
        test=torch.arange(num_train, num_train + num_test),
        class_names=_CLASSES,
        ids=(*(f"train/{i}" for i in range(num_train)), *(f"test/{i}" for i in range(num_test))),
    )
