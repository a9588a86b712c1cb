from __future__ import annotations

import os

from tg_crepe._files import check_root, damaged_file, find_file, read_arrays
from tg_crepe.datasets._arrays import image_tensor
from tg_crepe.datasets._chest_tables import FINDINGS, SOURCE, read_entries, read_lists, split_indices
from tg_crepe.datasets.image_dataset import ImageDataset

_FOLDERS = ("", "chestxray14")


def load_chestxray14_subset(root: str | os.PathLike[str]) -> ImageDataset:
    r"""A packed part of ChestX-ray14: the 4,999 images of its first archive at 64x64 pixels, with the official split.

    Figures on it cannot be compared with published ones, hence its name :obj:`"chestxray14 (subset)"`.

    Args:
        root (str or path): The folder of :obj:`images_001_64x64.npz`, :obj:`images_001_labels.csv`,
            :obj:`train_val_list.txt` and :obj:`test_list.txt`, or one that holds them in :obj:`chestxray14/`.
    """
    folder = check_root(root)
    image_path = find_file(folder, _FOLDERS, ("images_001_64x64.npz",), SOURCE)
    entry_path = find_file(folder, _FOLDERS, ("images_001_labels.csv",), SOURCE)
    entries = read_entries(entry_path)
    arrays = read_arrays(image_path, ("images", "names"))
    images = image_tensor(arrays["images"], str(image_path))
    if tuple(map(str, arrays["names"])) != entries.names or len(images) != len(entries.names):
        raise damaged_file(image_path, f"its {len(images)} images are not those of '{entry_path}', in the same order")
    train, test = split_indices(entries, read_lists(folder, _FOLDERS))
    return ImageDataset(
        name="chestxray14 (subset)",
        images=images,
        targets=entries.targets,
        train=train,
        test=test,
        class_names=FINDINGS,
        ids=entries.names,
        multi_label=True,
        groups=entries.patients,
    )
