from __future__ import annotations

import os
from pathlib import Path

import torch

from tg_crepe._files import check_root, damaged_file, find_file
from tg_crepe.datasets._chest_tables import FINDINGS, SOURCE, read_entries, read_lists, split_indices
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.image_files import ImageFiles, check_size

_FOLDERS = ("", "chestxray14")
_ENTRY_FILES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017_v2020.csv.gz", "Data_Entry_2017.csv")


def _image_paths(folder: Path) -> dict[str, Path]:
    """Every image by its name, in one folder or in those of the twelve archives."""
    paths: dict[str, Path] = {}
    for place in (folder / "images", *sorted(folder.glob("images_*/images")), *sorted(folder.glob("images_*"))):
        if not place.is_dir():
            continue
        for path in sorted(place.glob("*.png")):
            if path.name in paths:
                raise damaged_file(path, f"the same image is in '{paths[path.name].parent}'")
            paths[path.name] = path
    return paths


def load_chestxray14(
    root: str | os.PathLike[str], size: int | tuple[int, int] = 64, complete: bool = True
) -> ImageDataset:
    r"""ChestX-ray14: 112,120 frontal chest X-rays of 30,805 patients with 14 findings, several of them an image.

    The split is the official one, by patient. An image without a finding has a row of zeros. Images are read from
    their PNG files when they are asked for, in grey.

    Args:
        root (str or path): The folder of the entry file :obj:`Data_Entry_2017_v2020.csv` (or that of 2017), the lists
            :obj:`train_val_list.txt` and :obj:`test_list.txt`, and the images in :obj:`images/` or in
            :obj:`images_001/images/` and so on; or one that holds all this in :obj:`chestxray14/`.
        size (int or tuple[int, int], optional): Pixels a side of the decoded images. (default: :obj:`64`)
        complete (bool, optional): Whether every image of the entry file must be there. If not, the data set has those
            that are, and is named :obj:`"chestxray14 (subset)"`. (default: :obj:`True`)
    """
    folder, sides = check_root(root), check_size(size)
    entry_path = find_file(folder, _FOLDERS, _ENTRY_FILES, SOURCE)
    entries = read_entries(entry_path)
    lists = read_lists(folder, _FOLDERS)
    for path, listed in ((lists.train_path, lists.train), (lists.test_path, lists.test)):
        if unknown := listed.difference(entries.names):
            raise damaged_file(path, f"{len(unknown)} names are not in '{entry_path}', the first is '{min(unknown)}'")
    train, test = split_indices(entries, lists)
    paths = _image_paths(entry_path.parent)
    missing = [name for name in entries.names if name not in paths]
    if missing and (complete or len(missing) == len(entries.names)):
        raise FileNotFoundError(
            f"{len(missing)} of {len(entries.names)} images are missing, the first is '{missing[0]}': looked in "
            f"'{entry_path.parent / 'images'}' and '{entry_path.parent}/images_*/images'; get them from {SOURCE}, or "
            "use those that are there with complete=False"
        )
    there = torch.tensor([name in paths for name in entries.names])
    kept = there.nonzero().view(-1)
    place = there.long().cumsum(0) - 1  # of an entry among those that are kept
    names = tuple(entries.names[i] for i in kept.tolist())
    return ImageDataset(
        name="chestxray14 (subset)" if missing else "chestxray14",
        images=ImageFiles(tuple(paths[name] for name in names), sides, channels=1),
        targets=entries.targets[kept],
        train=place[train[there[train]]],
        test=place[test[there[test]]],
        class_names=FINDINGS,
        ids=names,
        multi_label=True,
        groups=tuple(entries.patients[i] for i in kept.tolist()),
    )
