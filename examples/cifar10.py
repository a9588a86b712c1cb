"""CIFAR-10, 4,000 labels.

The paper's error with the 13-layer network (preset ``paper``): 5.04 ± 0.03 % at 1,000 labels, 4.58 ± 0.11 % at 2,000,
4.31 ± 0.08 % at 4,000. With WRN-28-2 and RandAugment (preset ``paper_wrn``): 4.33 ± 0.09 % at 2,000, 4.16 ± 0.11 % at
4,000. The presets of the paper need a GPU. Where only the packed part of the data is found, the run is named a subset
and its figures cannot be compared.

Run ``python examples/cifar10.py --root DATA --labels 4000``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import first_found, main, stand_in

from tg_crepe.datasets import ImageDataset, load_cifar10, load_cifar10_subset


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return first_found(lambda: load_cifar10(root, verify=whole), lambda: load_cifar10_subset(root))


if __name__ == "__main__":
    main("cifar10", __doc__, load, partial(stand_in, "cifar10", 10, 3, 32))
