from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tg_crepe._files import check_root, damaged_file
from tg_crepe._labels import count_names, find_slip, read_label_tables
from tg_crepe.datasets._decode import IMAGE_SUFFIXES, image_size
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.image_files import ImageFiles, check_size
from tg_crepe.warnings import GraphWarning

_UNLABELLED = "unlabelled"


def _images_in(folder: Path) -> list[Path]:
    """The image files below a folder, sorted; other files are passed over."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


@dataclass
class _Found:
    """Files in order, the class of those that have one, and their places in the three parts."""

    paths: list[Path] = field(default_factory=list)
    label_of: dict[Path, str] = field(default_factory=dict)
    index: dict[str, list[int]] = field(default_factory=lambda: {"train": [], "test": [], "val": []})


def _class_files(folder: Path) -> dict[str, list[Path]]:
    """The files of each class folder."""
    classes = {place.name: _images_in(place) for place in _subfolders(folder)}
    for name, files in classes.items():
        if not files:
            raise damaged_file(folder / name, "the folder of a class holds no image")
    if not classes:
        raise damaged_file(folder, "it holds no folder for any class")
    if loose := [path.name for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES]:
        raise damaged_file(folder, f"'{min(loose)}' lies next to the folders of the classes and belongs to none")
    return classes


def _read_class_folders(folder: Path) -> _Found:
    found = _Found()
    split = [part for part in found.index if (folder / part).is_dir()]
    if split and "train" not in split:
        raise FileNotFoundError(f"the folder '{folder / 'train'}' is missing next to '{folder / split[0]}'")
    if split and (other := [place for place in _subfolders(folder) if place.name not in split]):
        raise damaged_file(other[0], "it lies next to 'train' and is none of train, test and val")
    for part in split or ["train"]:
        for name, files in _class_files(folder / part if split else folder).items():
            found.index[part] += range(len(found.paths), len(found.paths) + len(files))
            found.paths += files
            found.label_of |= {path: name for path in files if name != _UNLABELLED}
    return found


def _read_labels(paths: Sequence[Path], ids: Sequence[str]) -> dict[str, str]:
    """The labels of tables id,label together; a blank label, or no row, leaves an image unlabelled."""
    label_of = read_label_tables(paths, ids, "the images").label_of
    if slip := find_slip(count_names(label_of.values())):
        warnings.warn(f"'{paths[-1]}': the class '{slip[0]}' looks like '{slip[1]}'", GraphWarning, stacklevel=4)
    return label_of


def _read_flat(folder: Path, labels: Sequence[Path] | None) -> _Found:
    paths = _images_in(folder)
    if not paths:
        raise damaged_file(folder, "the folder holds no image")
    found = _Found(paths)
    found.index["train"] = list(range(len(paths)))
    if labels is not None:
        by_id = {path.relative_to(folder).as_posix(): path for path in paths}
        found.label_of = {by_id[name]: label for name, label in _read_labels(labels, list(by_id)).items()}
    return found


def _sorted_classes(names: set[str]) -> tuple[str, ...]:
    """By number where all names are numbers, else by the alphabet."""
    numbers = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name) if numbers else 0, name)))


def _common_size(paths: Sequence[Path]) -> tuple[int, int]:
    """The one size that all files have."""
    first = image_size(paths[0])
    for path in paths:
        if (other := image_size(path)) != first:
            raise damaged_file(
                path, f"it is {other[0]}x{other[1]}, '{paths[0]}' is {first[0]}x{first[1]}: state 'size'"
            )
    return first


def load_image_folder(
    root: str | os.PathLike[str],
    size: int | tuple[int, int] | None = None,
    channels: int = 3,
    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> ImageDataset:
    r"""Your own images in a folder.

    .. code-block:: text

        root/cat/1.png  root/dog/2.png  root/unlabelled/3.png            all are training images
        root/train/cat/1.png  root/test/cat/4.png  root/val/cat/5.png    with split folders
        root/1.png  root/2.png  labels.csv                               flat, with the columns id,label or no table

    The class is the name of the folder; images in a folder :obj:`unlabelled` have none. In a flat folder, the id of
    the table is the name of the file, and a blank label means unlabelled; without a table all images are.

    Args:
        root (str or path): The folder.
        size (int or tuple[int, int], optional): Pixels a side that all images are brought to. If not given, all
            files must have the same size. (default: :obj:`None`)
        channels (int, optional): :obj:`1` for grey or :obj:`3` for colour. (default: :obj:`3`)
        labels (str or path, optional): The table of a flat folder, or several that are taken together.
            (default: :obj:`None`)
    """
    folder, sides = check_root(root), None if size is None else check_size(size)
    flat = labels is not None or not _subfolders(folder)
    several = [labels] if isinstance(labels, str | os.PathLike) else labels
    tables = None if several is None else [Path(table) for table in several]
    found = _read_flat(folder, tables) if flat else _read_class_folders(folder)
    paths, label_of, index = found.paths, found.label_of, found.index
    class_names = _sorted_classes({label_of[paths[i]] for i in index["train"] if paths[i] in label_of})
    number = {name: place for place, name in enumerate(class_names)}
    if unseen := sorted(set(label_of.values()) - set(class_names)):
        raise damaged_file(folder, f"class '{unseen[0]}' has test or validation images and no training image")
    return ImageDataset(
        name=folder.resolve().name,
        images=ImageFiles(tuple(paths), sides or _common_size(paths), channels),
        targets=torch.tensor([number[label_of[path]] if path in label_of else -1 for path in paths]),
        train=torch.tensor(index["train"], dtype=torch.long),
        test=torch.tensor(index["test"], dtype=torch.long),
        val=torch.tensor(index["val"]) if index["val"] else None,
        class_names=class_names,
        ids=tuple(path.relative_to(folder).as_posix() for path in paths),
    )
