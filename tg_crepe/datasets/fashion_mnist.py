from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import numpy as np
import torch

from tg_crepe._files import check_md5, check_root, damaged_file, find_file, read_bytes
from tg_crepe.datasets._arrays import target_tensor
from tg_crepe.datasets.image_dataset import ImageDataset

_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_SOURCE = "Fashion-MNIST, https://github.com/zalandoresearch/fashion-mnist"
_FOLDERS = ("", "fashion_mnist", "FashionMNIST/raw")
# md5 of the packed and of the unpacked file. The names are MNIST's own, so nothing else tells the two sets apart.
_MD5 = {
    "train-images-idx3-ubyte": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    "train-labels-idx1-ubyte": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
    "t10k-images-idx3-ubyte": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
    "t10k-labels-idx1-ubyte": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
}


def _read_idx(path: Path, ndim: int) -> np.ndarray:
    """An array of bytes in the idx format: magic number, then the shape, both big-endian, then the data."""
    content, header = read_bytes(path), 4 * (ndim + 1)
    if len(content) < header:
        raise damaged_file(path, f"{len(content)} bytes are too few for a header of {header}")
    magic, *shape = struct.unpack(f">{ndim + 1}i", content[:header])
    if magic != 0x0800 + ndim:
        raise damaged_file(path, f"its magic number must be {0x0800 + ndim}, got {magic}")
    if min(shape) < 1 or len(content) - header != math.prod(shape):
        raise damaged_file(path, f"its header promises {shape}, but {len(content) - header} bytes follow")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _read(root: Path, name: str, verify: bool) -> tuple[Path, np.ndarray]:
    path = find_file(root, _FOLDERS, (f"{name}.gz", name), _SOURCE)
    if verify:
        check_md5(path, _MD5[name][0 if path.suffix == ".gz" else 1], _SOURCE)
    return path, _read_idx(path, ndim=3 if "images" in name else 1)


def load_fashion_mnist(root: str | os.PathLike[str], verify: bool = True) -> ImageDataset:
    r"""Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28x28 grey, ten classes.

    Args:
        root (str or path): The folder of the four files, packed (:obj:`.gz`) or not; or one that holds them in
            :obj:`fashion_mnist/` or, as torchvision stores them, in :obj:`FashionMNIST/raw/`.
        verify (bool, optional): Whether the files must be the official ones by their md5. (default: :obj:`True`)
    """
    folder, images, labels = check_root(root), [], []
    for part in ("train", "t10k"):
        image_path, pixels = _read(folder, f"{part}-images-idx3-ubyte", verify)
        label_path, classes = _read(folder, f"{part}-labels-idx1-ubyte", verify)
        if len(pixels) != len(classes):
            raise damaged_file(
                label_path, f"it has {len(classes)} labels for the {len(pixels)} images of '{image_path}'"
            )
        images.append(torch.from_numpy(pixels.copy()).unsqueeze(1))
        labels.append(target_tensor(classes, len(pixels), str(label_path), len(_CLASSES))[0])
    if images[0].shape[1:] != images[1].shape[1:]:
        raise damaged_file(
            image_path, f"its images are {tuple(images[1].shape[2:])}, the others {tuple(images[0].shape[2:])}"
        )
    num_train, num_test = map(len, images)
    return ImageDataset(
        name="fashion_mnist",
        images=torch.cat(images),
        targets=torch.cat(labels),
        train=torch.arange(num_train),
        test=torch.arange(num_train, num_train + num_test),
        class_names=_CLASSES,
        ids=(*(f"train/{i}" for i in range(num_train)), *(f"test/{i}" for i in range(num_test))),
    )
