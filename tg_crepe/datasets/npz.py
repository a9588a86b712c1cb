from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import damaged_file, read_arrays
from tg_crepe.datasets._arrays import image_tensor, target_tensor
from tg_crepe.datasets.image_dataset import ImageDataset

_KEYS = ("images", "labels", "class_names", "ids", "groups", "train", "test", "val")


def _index(array: np.ndarray, key: str, count: int, path: Path) -> Tensor:
    """Indices from indices or from a mask over all images."""
    if array.dtype == np.bool_ and array.shape == (count,):
        return torch.from_numpy(array.nonzero()[0])
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise damaged_file(
            path, f"'{key}' must be indices or a mask of shape ({count},), got {array.dtype} {array.shape}"
        )
    if array.size and (array.min() < 0 or array.max() >= count):
        raise damaged_file(path, f"'{key}' must be in [0, {count - 1}], got {array.min()} to {array.max()}")
    return torch.from_numpy(array.astype(np.int64))


def _strings(array: np.ndarray | None, key: str, path: Path) -> tuple[str, ...] | None:
    if array is None:
        return None
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise damaged_file(path, f"'{key}' must be a list of names or numbers, got {array.dtype} {array.shape}")
    return tuple(map(str, array.tolist()))


def load_npz(root: str | os.PathLike[str]) -> ImageDataset:
    r"""Your own images in a :obj:`.npz` file.

    Only :obj:`images` is needed: :obj:`[N, H, W]`, :obj:`[N, C, H, W]` or :obj:`[N, H, W, C]`, bytes or floating
    point numbers in [0, 1]. The other arrays: :obj:`labels` of shape :obj:`[N]` (-1 where unknown) or, for several
    labels per image, :obj:`[N, L]` with 0 and 1 (-1 or NaN where unknown); :obj:`class_names`; :obj:`ids`, a name for
    each image; :obj:`groups`, such as patients; :obj:`train`, :obj:`test` and :obj:`val`, indices or masks. Without
    :obj:`train`, all images that are in no other part are training images.

    Args:
        root (str or path): The file.
    """
    path = Path(root)
    if not path.is_file():
        raise FileNotFoundError(f"'root' must be a .npz file, '{path}' is missing")
    arrays = read_arrays(path, ("images",))
    if unknown := [key for key in arrays if key not in _KEYS]:
        raise damaged_file(path, f"its arrays must be among {', '.join(_KEYS)}, got {', '.join(unknown)}")
    images = image_tensor(arrays["images"], str(path))
    if not len(images):
        raise damaged_file(path, "it holds no image")
    count, names = len(images), _strings(arrays.get("class_names"), "class_names", path)
    labels = arrays.get("labels", np.full(count, -1))
    targets, multi_label = target_tensor(labels, count, str(path), None if names is None else len(names))
    num_classes = targets.size(1) if multi_label else int(targets.max()) + 1
    parts = {key: _index(arrays[key], key, count, path) for key in ("train", "test", "val") if key in arrays}
    rest = torch.ones(count, dtype=torch.bool)
    for index in parts.values():
        rest[index] = False
    return ImageDataset(
        name=path.stem,
        images=images,
        targets=targets,
        train=parts.get("train", rest.nonzero().view(-1)),
        test=parts.get("test", torch.empty(0, dtype=torch.long)),
        val=parts.get("val"),
        class_names=names or tuple(map(str, range(num_classes))),
        ids=_strings(arrays.get("ids"), "ids", path) or tuple(map(str, range(count))),
        multi_label=multi_label,
        groups=_strings(arrays.get("groups"), "groups", path),
    )
