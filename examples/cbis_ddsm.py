"""CBIS-DDSM mammograms, 40 % of the official training images labelled, three classes.

The paper's AUC with ResNet-18 (preset ``paper``, needs a GPU) is 83.9 % at 35 % and 84.2 % at 40 % of the labels; it
does not state the size of its images, 64 pixels are ours.

Run ``python examples/cbis_ddsm.py --root DATA --labels 35``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_cbis_ddsm


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return load_cbis_ddsm(root, size=size or 64, complete=whole)


if __name__ == "__main__":
    main("cbis_ddsm", __doc__, load, partial(stand_in, "cbis_ddsm", 3, 1, 32))
