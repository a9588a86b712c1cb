from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._files import damaged_file
from tg_crepe.datasets._arrays import image_bytes, target_tensor
from tg_crepe.datasets.image_dataset import ImageDataset


def _image(image: Any, where: str) -> Tensor:
    """Bytes of shape [channels, height, width]: a tensor has its channels first, an array or a PIL image last."""
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[None]
    elif array.ndim == 3 and not isinstance(image, Tensor):
        array = array.transpose(2, 0, 1)
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise damaged_file(
            where, f"its image must have 1 or 3 channels, got {type(image).__name__} of shape {array.shape}"
        )
    return image_bytes(array, where)


def _read(dataset: Any, name: str) -> tuple[list[Tensor], list[Any]]:
    """Images, and the labels that come with them: None where there is none."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ValueError(f"'{name}' must be a torch Dataset with a length, got {type(dataset).__name__}")
    images: list[Tensor] = []
    labels: list[Any] = []
    for place in tqdm(range(len(dataset)), desc=f"reading '{name}'", disable=None):
        item, where = dataset[place], f"item {place} of {name}"
        if not isinstance(item, tuple | list):
            item = (item, None)
        images.append(_image(item[0], where))
        if images[-1].shape != images[0].shape:
            raise damaged_file(
                where, f"its shape {tuple(images[-1].shape)} differs from {tuple(images[0].shape)} before"
            )
        labels.append(item[1] if len(item) > 1 else None)
    return images, labels


def _targets(labels: list[Any]) -> tuple[Tensor, bool]:
    """Targets of labels that are numbers, or 0 and 1 for each finding; None is unknown."""
    arrays = [None if label is None else np.asarray(label) for label in labels]
    shape = next((array.shape for array in arrays if array is not None), ())
    for place, array in enumerate(arrays):
        if array is not None and (array.shape != shape or array.dtype.kind not in "iufb"):
            raise damaged_file(
                f"item {place}", f"its label must be an integer or 0/1 of shape {shape}, got {labels[place]!r}"
            )
    unknown = np.full(shape, -1)
    return target_tensor(np.stack([unknown if a is None else a for a in arrays]), len(arrays), "the labels")


def from_torch_dataset(train: Any, test: Any = None, name: str = "dataset") -> ImageDataset:
    r"""Your own torch :class:`~torch.utils.data.Dataset`, read into memory once.

    An item is an image, or a tuple of an image and a label. An image is a PIL image, an array :obj:`[H, W]` or
    :obj:`[H, W, C]`, or a tensor :obj:`[C, H, W]`, in bytes or floating point in [0, 1]: leave normalisation and
    augmentation to the trainer. A label is a class, a vector of 0 and 1, or :obj:`None` where it is unknown. The
    classes' names are taken from an attribute :obj:`classes`, if there is one.

    Args:
        train (Dataset): The training images.
        test (Dataset, optional): The test images. (default: :obj:`None`)
        name (str, optional): What to call the data set. (default: :obj:`"dataset"`)
    """
    images, labels = _read(train, "train")
    num_train = len(images)
    if not num_train:
        raise ValueError("'train' must hold at least one image, got an empty Dataset")
    if test is not None:
        test_images, test_labels = _read(test, "test")
        images, labels = images + test_images, labels + test_labels
    shapes = {tuple(image.shape) for image in images}
    if len(shapes) > 1:
        raise ValueError(f"'train' and 'test' must have images of one shape, got {sorted(shapes)}")
    targets, multi_label = _targets(labels)
    num_classes = targets.size(1) if multi_label else int(targets.max()) + 1
    class_names = tuple(map(str, getattr(train, "classes", None) or range(num_classes)))
    return ImageDataset(
        name=name,
        images=torch.stack(images),
        targets=targets,
        train=torch.arange(num_train),
        test=torch.arange(num_train, len(images)),
        class_names=class_names,
        ids=(*(f"train/{i}" for i in range(num_train)), *(f"test/{i}" for i in range(len(images) - num_train))),
        multi_label=multi_label,
    )
