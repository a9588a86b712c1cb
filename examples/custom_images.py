"""Your own images: a folder (a folder a class, or ``train/`` and ``test/`` with one each) or a ``.npz`` file.

The paper has no figure for your data: run ``--energy none`` and ``--energy network`` beside CREPE. Images in a folder
``unlabelled`` (label -1 in a file) have no label; of the others 10 % are used, or ``--labels 100`` for all.

Run ``python examples/custom_images.py --root my_images --labels 100``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_image_folder, load_npz


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return load_npz(root) if root.suffix == ".npz" else load_image_folder(root, size=size)


if __name__ == "__main__":
    main("custom", __doc__, load, partial(stand_in, "custom", 4, 3, 32))
