"""Fashion-MNIST, 1 % of the 60,000 training images labelled.

The paper reports the energy alone here (Table 1: error 17.62 ± 0.21 % at 1 %, 16.05 at 2 %, 14.21 at 5 %, 13.16 at 10 %
of the labels) and no hybrid model, so the network of the preset ``paper`` is ours.

Run ``python examples/fashion_mnist.py --root DATA``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _common import main, stand_in

from tg_crepe.datasets import ImageDataset, load_fashion_mnist


def load(root: Path, size: int | None, whole: bool) -> ImageDataset:
    return load_fashion_mnist(root, verify=whole)


if __name__ == "__main__":
    main("fashion_mnist", __doc__, load, partial(stand_in, "fashion_mnist", 10, 1, 28))
