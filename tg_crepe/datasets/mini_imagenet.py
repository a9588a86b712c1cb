from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import torch

from tg_crepe._files import check_root, check_unique, damaged_file, find_file, read_table
from tg_crepe.datasets._decode import IMAGE_SUFFIXES
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.image_files import ImageFiles, check_size

_FOLDERS = ("", "mini_imagenet")
_PARTS = ("train", "val", "test")
_SOURCE = (
    "Ravi and Larochelle (tables: https://github.com/twitter-research/meta-learning-lstm) and ImageNet (images: "
    "https://image-net.org)"
)
_PER_CLASS = 600
_CLASSES_MD5 = "71db04de5b0455dedda1a0264bb48a32"  # of the 100 sorted WordNet ids: Vinyals' split has the same form
_WORDNET_ID = re.compile(r"n\d{8}")


def _from_tables(home: Path) -> dict[str, list[Path]]:
    """The files of each class, in the order of the tables; whether they exist is not asked here."""
    classes: dict[str, list[Path]] = {}
    for part in _PARTS:
        path = find_file(home, ("",), (f"{part}.csv",), _SOURCE)
        rows = read_table(path, ("filename", "label"), exact=True)
        if not rows:
            raise damaged_file(path, "it has a header and no rows")
        if again := {row["label"] for row in rows}.intersection(classes):
            raise damaged_file(path, f"class '{min(again)}' stands in an earlier table too; the three share no class")
        check_unique(path, "the image", [row["filename"] for row in rows])
        for row in rows:
            if not _WORDNET_ID.fullmatch(row["label"]) or not row["filename"].startswith(row["label"]):
                raise damaged_file(
                    path, f"the label of '{row['filename']}' must be its WordNet id, got '{row['label']}'"
                )
            inner, flat = home / "images" / row["label"] / row["filename"], home / "images" / row["filename"]
            classes.setdefault(row["label"], []).append(inner if inner.is_file() else flat)
    return classes


def _from_folders(home: Path) -> dict[str, list[Path]]:
    """The files of each class from folders named by WordNet id, at once or in train, val and test; sorted by name."""
    classes: dict[str, list[Path]] = {}
    for place in (home, home / "images", *(home / part for part in _PARTS)):
        for folder in sorted(place.glob("n*")):
            if not folder.is_dir() or not _WORDNET_ID.fullmatch(folder.name):
                continue
            if folder.name in classes:
                raise damaged_file(folder, f"the same class is in '{classes[folder.name][0].parent}'")
            files = sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
            if not files:
                raise damaged_file(folder, "the folder holds no image")
            classes[folder.name] = files
    return classes


def _find_classes(root: Path) -> dict[str, list[Path]]:
    homes = [root / folder for folder in _FOLDERS]
    for home in homes:
        if (home / "train.csv").is_file():
            return _from_tables(home)
    for home in homes:
        if classes := _from_folders(home):
            return classes
    looked = ", ".join(f"'{home}'" for home in homes)
    raise FileNotFoundError(
        f"'train.csv' and folders named by WordNet id are missing: looked in {looked}; get them from {_SOURCE}"
    )


def _check_complete(root: Path, classes: dict[str, list[Path]]) -> None:
    """Raise unless these are the 100 classes with 600 images each."""
    if hashlib.md5("\n".join(sorted(classes)).encode(), usedforsecurity=False).hexdigest() != _CLASSES_MD5:
        raise damaged_file(
            root,
            f"its {len(classes)} classes are not the 100 of Ravi and Larochelle; complete=False reads a part",
        )
    for name, files in classes.items():
        if len(files) != _PER_CLASS:
            raise damaged_file(
                root, f"class '{name}' must have {_PER_CLASS} images, got {len(files)}; complete=False reads a part"
            )


def load_mini_imagenet(
    root: str | os.PathLike[str], size: int | tuple[int, int] = 64, complete: bool = True
) -> ImageDataset:
    r"""Mini-ImageNet: 100 classes of 600 images, in colour.

    The three tables are a few-shot split with different classes in each. Semi-supervised learning needs all classes in
    both parts, so this loader **makes a split of its own**: of each class the first 500 images (in the order of its
    table; by name where there are folders) are training images, the other 100 test images. Of a class with another
    number of images five sixths are training images.

    Args:
        root (str or path): A folder with :obj:`train.csv`, :obj:`val.csv`, :obj:`test.csv` and :obj:`images/`, or
            with one folder for each class, at once or in :obj:`train/`, :obj:`val/` and :obj:`test/`; or one that
            holds all this in :obj:`mini_imagenet/`.
        size (int or tuple[int, int], optional): Pixels a side of the decoded images; the paper's value is the default.
            (default: :obj:`64`)
        complete (bool, optional): Whether all 60,000 images must be there. If not, the data set has those that
            are, and is named :obj:`"mini_imagenet (subset)"`. (default: :obj:`True`)
    """
    folder, sides = check_root(root), check_size(size)
    classes = _find_classes(folder)
    if complete:
        _check_complete(folder, classes)
    missing = [path for files in classes.values() for path in files if not path.is_file()]
    if missing and (complete or len(missing) == sum(map(len, classes.values()))):
        raise FileNotFoundError(
            f"{len(missing)} images are missing, the first is '{missing[0]}'; get them from {_SOURCE}, or use those "
            "that are there with complete=False"
        )
    absent = set(missing)
    present = {name: [path for path in files if path not in absent] for name, files in sorted(classes.items())}
    present = {name: files for name, files in present.items() if files}
    targets = torch.tensor([label for label, files in enumerate(present.values()) for _ in files])
    in_test = torch.tensor([place >= len(files) * 5 // 6 for files in present.values() for place in range(len(files))])
    paths = tuple(path for files in present.values() for path in files)
    return ImageDataset(
        name="mini_imagenet" if complete else "mini_imagenet (subset)",
        images=ImageFiles(paths, sides, channels=3),
        targets=targets,
        train=(~in_test).nonzero().view(-1),
        test=in_test.nonzero().view(-1),
        class_names=tuple(present),
        ids=tuple(f"{name}/{path.name}" for name, files in present.items() for path in files),
    )
