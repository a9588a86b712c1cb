"""A data set of MedMNIST v2 (``--flag``, PneumoniaMNIST by default), 10 % of the training images labelled.

The paper has no figure for MedMNIST; ChestMNIST is the small ChestX-ray14, for which it reports an average AUC of
81.75 % at 20 % of the labels, from larger images.

Run ``python examples/medmnist.py --root DATA --flag breastmnist``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_medmnist


def load(root: Path, size: int | None, whole: bool, flag: str) -> ImageDataset:
    return load_medmnist(root, flag, verify=whole)


if __name__ == "__main__":
    main("medmnist", __doc__, load, partial(stand_in, "medmnist", 2, 1, 28), flag="pneumoniamnist")
