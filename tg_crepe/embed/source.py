from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tg_crepe._checks import check_choice
from tg_crepe._files import damaged_file, read_arrays
from tg_crepe.datasets._decode import IMAGE_SUFFIXES
from tg_crepe.embed.encoder import KINDS


class Source(ABC):
    r"""Where items come from, one at a time, each with a name: all that is kept of them is their names.

    Args:
        name (str): What to call it in a message.
        ids (sequence of str): One name for each item.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, ids: Sequence[str]) -> None:
        self.name = name
        self.ids = list(ids)
        self._marks: dict[int, str] = {}
        self._prints: dict[tuple[int, int], str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def read(self, place: int) -> Any:
        """An item: a Pillow image in colour, or a text; threads call it. What is wrong with one is a ValueError."""

    @abstractmethod
    def _mark_of(self, place: int) -> str:
        """What changes where the item does, without reading more than it must."""

    def mark(self, place: int) -> str:
        """The item's mark when it was first asked for, which is no later than when it was read: an item that changes
        while a run is under way has its old mark, and the next run sees that it is another."""
        if place not in self._marks:
            self._marks[place] = self._mark_of(place)
        return self._marks[place]

    def fingerprint(self, start: int = 0, stop: int | None = None) -> str:
        """A checksum of the names and marks of some items, as they were when it was first asked for."""
        part = (start, len(self) if stop is None else min(stop, len(self)))
        if part not in self._prints:
            digest = hashlib.sha256()
            for place in range(*part):
                digest.update(f"{self.ids[place]!r} {self.mark(place)}\n".encode())
            self._prints[part] = digest.hexdigest()[:16]
        return self._prints[part]


class ItemSource(Source):
    """Images, or texts, that are there already or come by an index: lists, arrays, any :class:`Dataset`."""

    def __init__(self, items: Any, kind: str, name: str = "the items", ids: Sequence[str] | None = None) -> None:
        super().__init__(name, [str(place) for place in range(len(items))] if ids is None else ids)
        self.kind = kind  # type: ignore[misc]  # of these items, not of the class
        self._items = items

    def _item(self, place: int) -> Any:
        item = self._items[place]
        return item[0] if isinstance(item, tuple | list) and self.kind == "images" and len(item) else item

    def read(self, place: int) -> Any:
        """An image or a text, checked."""
        from tg_crepe.embed.images import image_of, open_image

        item, where = self._item(place), f"item '{self.ids[place]}' of {self.name}"
        if place not in self._marks:  # while it is here: making it again may take long
            self._marks[place] = mark_item(item, self.kind)
        if self.kind == "texts":
            return check_text(item, where)
        return open_image(Path(item)) if isinstance(item, os.PathLike | str) else image_of(item, where)

    def _mark_of(self, place: int) -> str:
        return mark_item(self._item(place), self.kind)


def mark_item(item: Any, kind: str = "images") -> str:
    """A checksum of an item in memory, and size and time of a file."""
    if item is None:
        return "blank"
    if isinstance(item, str) and kind == "texts":
        return _digest(item.encode("utf-8", "surrogatepass"))
    if isinstance(item, str | os.PathLike):
        return file_mark(Path(item))
    if isinstance(item, dict):  # a file's bytes or its path, as Hugging Face keeps images
        return mark_item(item.get("bytes") or item.get("path"))
    if isinstance(item, bytes):
        return _digest(item)
    if hasattr(item, "getexif"):  # of Pillow
        palette = item.getpalette() if item.mode in ("P", "PA") else None
        facts = f"{item.mode} {item.size} {item.getexif().get(0x0112)} {palette} {item.info.get('transparency')} "
        return _digest(facts.encode() + item.tobytes())
    array = np.ascontiguousarray(np.asarray(item))
    return _digest(f"{array.dtype} {array.shape} ".encode() + array.tobytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def file_mark(path: Path) -> str:
    """Size and time of a file: enough to see that it is another, and quick for a million."""
    try:
        facts = path.stat()
    except OSError:
        return "missing"
    return f"{facts.st_size} {facts.st_mtime_ns}"


def check_text(text: Any, where: str) -> str:
    """A text with something in it."""
    if not isinstance(text, str):
        raise ValueError(f"{where} must be a text, got {type(text).__name__}")
    if not text.strip():
        raise ValueError(f"{where} is blank")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} holds half a character (a lone surrogate), which no model reads") from error
    return text


def open_source(source: Any, kind: str | None = None, column: str | None = None) -> Source:
    r"""What a user's files or objects are as a source.

    Args:
        source: A folder of images; a ``.csv`` or ``.parquet`` table with a column of texts; a ``.npz`` file of images;
            an :class:`~tg_crepe.datasets.ImageDataset`; a pandas frame; a list or a :class:`Dataset` of images, of
            files of images, or of texts; a `datasets <https://huggingface.co/docs/datasets>`_ set.
        kind (str, optional): :obj:`"images"` or :obj:`"texts"`. (default: :obj:`None`, what the source is; strings are
            files of images if the first ends as one, and texts otherwise)
        column (str, optional): The column with the texts or images. (default: :obj:`None`, found by itself)
    """
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if isinstance(source, Source):
        found = source
    elif isinstance(source, str | os.PathLike):
        found = _open_path(Path(source), column)
    else:
        found = _open_object(source, kind, column)
    if kind is not None and found.kind != kind:
        raise ValueError(f"'model' must read {found.kind} for '{found.name}', got one that reads {kind}")
    if not len(found):
        raise ValueError(f"'{found.name}' must hold {found.kind}, got none")
    return found


def _open_path(path: Path, column: str | None) -> Source:
    """A folder, a table or a file of arrays."""
    from tg_crepe.datasets import load_npz
    from tg_crepe.embed.image_folder import ImageFolder
    from tg_crepe.embed.table import TABLES, Table

    if path.is_dir():
        return ImageFolder(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"the source '{path}' is missing: it must be a folder of images, a table or a .npz file"
        )
    if path.suffix.lower() in TABLES:
        return Table(path, column)
    if path.suffix.lower() == ".npz":
        names = read_arrays(path, ()).keys()
        if "x" in names and "images" not in names:
            raise damaged_file(path, "it holds features ('x') and no images: there is nothing to embed")
        dataset = load_npz(path)
        return ItemSource(dataset.images, "images", str(path), dataset.ids)
    raise damaged_file(path, f"a source must be a folder of images, or end in {', '.join(TABLES)} or .npz")


def _open_object(source: Any, kind: str | None, column: str | None) -> Source:
    """Objects of Python: data sets, frames, lists."""
    from tg_crepe.datasets import ImageDataset
    from tg_crepe.embed.frames import frame_source

    if isinstance(source, ImageDataset):
        from tg_crepe.embed.image_folder import DatasetSource

        return DatasetSource(source)
    if (frame := frame_source(source, kind, column)) is not None:
        return frame
    if isinstance(source, str) or not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
        raise ValueError(f"'source' must be a path, a list, a frame or a Dataset, got {type(source).__name__}")
    if kind is None:
        first = source[0] if len(source) else None
        kind = (
            "texts" if isinstance(first, str) and Path(first[-10:]).suffix.lower() not in IMAGE_SUFFIXES else "images"
        )
    return ItemSource(source, kind, type(source).__name__)
