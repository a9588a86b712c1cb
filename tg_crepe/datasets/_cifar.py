"""The pickles of CIFAR-10 and CIFAR-100, read without running what a pickle may contain."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import check_md5, damaged_file, find_file, read_bytes
from tg_crepe.datasets._arrays import target_tensor
from tg_crepe.datasets.image_dataset import ImageDataset

_PIXELS = 3 * 32 * 32


def _encode_latin1(text: str, encoding: str) -> bytes:
    """What Python 3 writes for bytes in an old pickle; any other codec is refused."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"the codec {encoding!r} does not belong there")
    return text.encode("latin-1")


class _PickledType:
    """What a pickle calls a dtype: unsigned bytes are the one that the images have."""

    def __init__(self, code: object, *_: object) -> None:
        if code not in ("u1", "|u1", "uint8"):
            raise pickle.UnpicklingError(f"the dtype {code!r} does not belong there")

    def __setstate__(self, state: object) -> None:
        """The byte order, which bytes do not have."""


class _PickledArray:
    """What a pickle calls an array; numpy's own would take raw bytes for whatever the pickle says they are."""

    def __init__(self, *_: object) -> None:
        self.value = np.empty((0, _PIXELS), np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, raw = state
        if not isinstance(kind, _PickledType) or by_column or not isinstance(raw, bytes | str):
            raise pickle.UnpicklingError("an array must be of unsigned bytes, row by row")
        content = raw.encode("latin-1") if isinstance(raw, str) else raw
        if len(shape) != 2 or shape[1] != _PIXELS or shape[0] * shape[1] != len(content):
            raise pickle.UnpicklingError(f"an array must be of shape (count, {_PIXELS}), got {shape}")
        self.value = np.frombuffer(content, np.uint8).reshape(shape)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("_codecs", "encode"): _encode_latin1,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows numpy arrays and the plain types, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"'{module}.{name}' does not belong there")
        return _ALLOWED[module, name]


def _read_pickle(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    try:
        content = _ArrayUnpickler(io.BytesIO(read_bytes(path)), encoding="latin1").load()
    except Exception as error:  # a cut or changed pickle raises whatever its next byte leads to
        raise damaged_file(path, f"it is not a whole CIFAR pickle ({error})") from error
    if not isinstance(content, dict) or not all(key in content for key in keys):
        got = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise damaged_file(path, f"it must hold the keys {', '.join(keys)}, got {got}")
    return content


def read_class_names(path: Path, key: str, count: int) -> tuple[str, ...]:
    """The classes' names of the meta file."""
    names = _read_pickle(path, (key,))[key]
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        raise damaged_file(path, f"'{key}' must be a list of {count} names")
    return tuple(names)


def read_batch(path: Path, label_key: str, num_classes: int) -> tuple[Tensor, Tensor]:
    """Images of shape [count, 3, 32, 32] and classes of shape [count]; a row holds red, then green, then blue."""
    content = _read_pickle(path, ("data", label_key))
    data, labels = content["data"], content[label_key]
    if not isinstance(data, _PickledArray):
        raise damaged_file(path, f"'data' must be uint8 of shape (count, {_PIXELS}), got {type(data).__name__}")
    data = data.value
    if not isinstance(labels, list) or len(labels) != len(data) or not all(type(label) is int for label in labels):
        raise damaged_file(path, f"'{label_key}' must be a list of {len(data)} integers")
    targets, _ = target_tensor(np.array(labels), len(data), str(path), num_classes)
    return torch.from_numpy(data.reshape(-1, 3, 32, 32).copy()), targets


def load_cifar(
    name: str,
    root: Path,
    folders: Sequence[str],
    md5: Mapping[str, str],
    meta: tuple[str, str],
    label_key: str,
    num_classes: int,
    source: str,
    verify: bool,
) -> ImageDataset:
    """What the two share: all files of ``md5`` but the meta file are batches, the last of them the test set."""
    paths = {file: find_file(root, folders, (file,), source) for file in md5}
    if verify:
        for file, path in paths.items():
            check_md5(path, md5[file], source)
    class_names = read_class_names(paths.pop(meta[0]), meta[1], num_classes)
    batches = [read_batch(path, label_key, num_classes) for path in paths.values()]
    num_test = len(batches[-1][1])
    num_train = sum(len(targets) for _, targets in batches) - num_test
    return ImageDataset(
        name=name,
        images=torch.cat([images for images, _ in batches]),
        targets=torch.cat([targets for _, targets in batches]),
        train=torch.arange(num_train),
        test=torch.arange(num_train, num_train + num_test),
        class_names=class_names,
        ids=(*(f"train/{i}" for i in range(num_train)), *(f"test/{i}" for i in range(num_test))),
    )
