"""CIFAR-100, 10,000 labels.

The paper's error with the 13-layer network (preset ``paper``): 31.02 ± 0.03 % at 4,000 labels, 25.11 ± 0.19 % at
10,000. With WRN-28-2 and RandAugment (preset ``paper_wrn``): 32.21 ± 0.18 % at 4,000, 26.14 ± 0.24 % at 10,000. These
presets need a GPU.

Run ``python examples/cifar100.py --root DATA --labels 4000``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_cifar100


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return load_cifar100(root, verify=whole)


if __name__ == "__main__":
    main("cifar100", __doc__, load, partial(stand_in, "cifar100", 100, 3, 32))
