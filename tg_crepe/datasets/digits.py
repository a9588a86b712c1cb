from __future__ import annotations

import numpy as np
import torch

from tg_crepe._optional import require
from tg_crepe.datasets.image_dataset import ImageDataset

_NUM_TEST = 360  # a fifth


def load_digits() -> ImageDataset:
    r"""The 1,797 handwritten digits that scikit-learn contains, 8x8 grey, ten classes.

    There is no official split: the last 360 images are the test images. The images stand in the order of their
    writers, so most of the test images are by writers that the training images do not show. The 17 grey levels
    0 to 16 are scaled to 0 to 255.
    """
    digits = require("sklearn.datasets", extra="sklearn").load_digits()
    images = torch.from_numpy(np.rint(digits.images * (255 / 16)).astype(np.uint8)).unsqueeze(1)
    train, test = torch.arange(len(images)).split([len(images) - _NUM_TEST, _NUM_TEST])
    return ImageDataset(
        name="digits",
        images=images,
        targets=torch.from_numpy(digits.target.astype(np.int64)),
        train=train,
        test=test,
        class_names=tuple(map(str, range(10))),
        ids=tuple(map(str, range(len(images)))),
    )
