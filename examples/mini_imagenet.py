"""Mini-ImageNet at 64x64 pixels, 10,000 labels.

The paper's error with ResNet-18 (preset ``paper``, needs a GPU): 45.61 ± 0.25 % at 4,000 labels, 38.33 ± 0.11 % at
10,000. The split of the 100 classes into 500 training and 100 test images is ours: the paper does not state its own.

Run ``python examples/mini_imagenet.py --root DATA --labels 4000``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_mini_imagenet


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return load_mini_imagenet(root, size=size or 64, complete=whole)


if __name__ == "__main__":
    main("mini_imagenet", __doc__, load, partial(stand_in, "mini_imagenet", 100, 3, 32))
