"""ChestX-ray14, 20 % of the official training images labelled, 14 findings that an image may have together.

The paper's average AUC with ResNet-18 (preset ``paper``, needs a GPU) is 81.75 % at 20 % of the labels; it does not
state the size of its images, 64 pixels are ours. Where only the packed part of the data is found, the run is named a
subset and its figures cannot be compared.

Run ``python examples/chestxray14.py --root DATA --labels 20``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import first_found, main, stand_in

from tg_crepe.datasets import ImageDataset, load_chestxray14, load_chestxray14_subset


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    official = partial(load_chestxray14, root, size=size or 64, complete=whole)
    return first_found(official, partial(load_chestxray14_subset, root))


if __name__ == "__main__":
    main("chestxray14", __doc__, load, partial(stand_in, "chestxray14", 14, 1, 32, multi_label=True))
