from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path
from typing import Any

import torch

from tg_crepe._checks import check_choice
from tg_crepe._files import check_md5, check_root, damaged_file, find_file, read_arrays
from tg_crepe.datasets._arrays import image_tensor, target_tensor
from tg_crepe.datasets.image_dataset import ImageDataset

#: The two-dimensional sets of MedMNIST v2.
MEDMNIST = (
    "pathmnist",
    "chestmnist",
    "dermamnist",
    "octmnist",
    "pneumoniamnist",
    "retinamnist",
    "breastmnist",
    "bloodmnist",
    "tissuemnist",
    "organamnist",
    "organcmnist",
    "organsmnist",
)
_SIZES = (28, 64, 128, 224)
_SOURCE = "MedMNIST, https://medmnist.com"
_PARTS = ("train", "val", "test")


def _catalogue(name: str) -> dict[str, Any]:
    """Class names and md5 as the medmnist package states them; empty without the package.

    The package is read and not imported: importing it needs torchvision and makes a folder in the user's home.
    """
    package = importlib.util.find_spec("medmnist")
    for folder in (package.submodule_search_locations or ()) if package else ():
        path = Path(folder, "info.py")
        for statement in ast.parse(path.read_text("utf-8")).body if path.is_file() else ():
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "INFO":
                entry: dict[str, Any] = ast.literal_eval(statement.value).get(name, {})
                return entry
    return {}


def load_medmnist(root: str | os.PathLike[str], flag: str, size: int = 28, verify: bool = True) -> ImageDataset:
    r"""A data set of MedMNIST v2 by its name, with its fixed training, validation and test parts.

    ChestMNIST is multi-label: ChestX-ray14 at 28x28 pixels. Names of the classes and the official md5 are those of the
    :obj:`medmnist` package; without it classes are named by their numbers, and only the checksums inside the file
    are tested.

    Args:
        root (str or path): The folder of :obj:`<flag>.npz`, or one that holds it in :obj:`medmnist/`.
        flag (str): The data set, such as :obj:`"pneumoniamnist"`.
        size (int, optional): Pixels a side: :obj:`28`, :obj:`64`, :obj:`128` or :obj:`224`. (default: :obj:`28`)
        verify (bool, optional): Whether the file must be the official one by its md5, where that is known.
            (default: :obj:`True`)
    """
    check_choice("flag", flag, MEDMNIST)
    if size not in _SIZES:
        raise ValueError(f"'size' must be one of {_SIZES}, got {size!r}")
    suffix = "" if size == 28 else f"_{size}"
    path = find_file(check_root(root), ("", "medmnist"), (f"{flag}{suffix}.npz",), _SOURCE)
    catalogue = _catalogue(flag)
    md5 = catalogue.get(f"MD5{suffix}")
    if verify and md5:
        check_md5(path, md5, _SOURCE)
    arrays = read_arrays(path, [f"{part}_{what}" for part in _PARTS for what in ("images", "labels")])
    names = tuple(catalogue.get("label", {}).values())
    images, targets, multi_labels = [], [], set()
    for part in _PARTS:
        images.append(image_tensor(arrays[f"{part}_images"], f"{path}, {part}_images"))
        labels, where = arrays[f"{part}_labels"], f"{path}, {part}_labels"
        target, multi_label = target_tensor(labels, len(images[-1]), where, len(names) or None)
        targets.append(target)
        multi_labels.add(multi_label)
    if len({image.shape[1:] for image in images}) > 1 or len({target.shape[1:] for target in targets}) > 1:
        raise damaged_file(path, "its three parts differ in the shape of images or labels")
    if images[0].shape[2:] != (size, size):
        raise damaged_file(path, f"images must be {size}x{size}, got {tuple(images[0].shape[2:])}")
    target, multi_label = torch.cat(targets), multi_labels.pop()
    num_classes = target.size(1) if multi_label else int(target.max()) + 1
    train, val, test = torch.arange(len(target)).split([len(part) for part in images])
    return ImageDataset(
        name=flag,
        images=torch.cat(images),
        targets=target,
        train=train,
        val=val,
        test=test,
        class_names=names or tuple(map(str, range(num_classes))),
        ids=tuple(f"{part}/{i}" for part, array in zip(_PARTS, images, strict=True) for i in range(len(array))),
        multi_label=multi_label,
    )
