from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.datasets._open import open_picture
from tg_crepe.embed.image_folder import ImageFolder
from tg_crepe.embed.images import open_image
from tg_crepe.embed.source import Source

#: Pixels a side of the images that the page shows.
SIDES = {"large": 900, "small": 160}

#: Encoded images that are kept, and images that are decoded at the same time: each may take hundreds of megabytes.
_KEPT, _AT_ONCE = 400, 2

#: Pixels of an image that the page shows at most: a file of a few bytes may claim thousands of millions.
_MOST_PIXELS = 80_000_000

#: Characters of a text on the page, whole and short.
_WHOLE, _SHORT = 20_000, 200


class Items:
    r"""What the page shows of the items: images, texts, or their names alone.

    An image is decoded here, with a limit of pixels, and encoded anew: what reaches the browser are pixels, and
    none of the bytes of the file. A file that lies outside its folder, by a link, is not opened.

    Args:
        ids (sequence of str): The names of the items.
        source (Source, optional): Where their images or texts are. (default: :obj:`None`, nowhere)
        root (Path, optional): The folder that the files of the source must lie in. (default: :obj:`None`)
    """

    def __init__(self, ids: Sequence[str], source: Source | None = None, root: Path | None = None) -> None:
        self.ids = list(ids)
        self.source = source
        self.kind = "rows" if source is None else source.kind
        self._root = None if root is None else root.resolve()
        self._place = {} if source is None else _places(source)
        self._kept: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._lock, self._turn = threading.Lock(), threading.Semaphore(_AT_ONCE)
        if source is not None and not any(name in self._place for name in self.ids):
            raise ValueError(f"'{source.name}' must show the items, but none of their ids is the name of one there")

    def text(self, item: int, short: bool = False) -> str | None:
        """The text of an item, or None where it has none."""
        place = self._place.get(self.ids[item])
        if self.source is None or self.kind != "texts" or place is None:
            return None
        text: str = self.source.read(place)
        limit = _SHORT if short else _WHOLE
        text = " ".join(text.split()) if short else text
        return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

    def image(self, item: int, size: str) -> bytes:
        """The image of an item as a JPEG or PNG file of our own making; a ValueError says why there is none."""
        key = (item, size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self._turn:
            content = _encode(self._open(item), SIDES[size])
        with self._lock:
            self._kept[key] = content
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return content

    def _open(self, item: int) -> Any:
        place = self._place.get(self.ids[item])
        if self.source is None or self.kind != "images" or place is None:
            raise ValueError(f"'{self.ids[item]}' has no image")
        if not isinstance(self.source, ImageFolder):
            return self.source.read(place)
        path = self.source.paths[place]
        if self._root is not None and not path.resolve().is_relative_to(self._root):
            raise damaged_file(path, "it is a link out of the folder of the project")
        _check_size(path)
        return open_image(path)

    def whole_source(self) -> Source | None:
        """The source where it has something of every item under its own name."""
        named = set() if self.source is None else set(self.source.ids)
        return self.source if self.source is not None and all(name in named for name in self.ids) else None

    def path(self, item: int) -> Path | None:
        """The file of an image in a folder."""
        place = self._place.get(self.ids[item])
        if not isinstance(self.source, ImageFolder) or place is None:
            return None
        return self.source.paths[place]


def _places(source: Source) -> dict[str, int]:
    """Where items of a name are; images also go by their name without the ending where only one has it."""
    place = {name: number for number, name in enumerate(source.ids)}
    if source.kind != "images":
        return place
    stems: dict[str, list[int]] = {}
    for number, name in enumerate(source.ids):
        stems.setdefault(str(Path(name).with_suffix("")), []).append(number)
    return {**{stem: numbers[0] for stem, numbers in stems.items() if len(numbers) == 1}, **place}


def _check_size(path: Path) -> None:
    """Raise where a file claims more pixels than a photograph has, before any of them is unpacked."""
    if path.suffix.lower() == ".dcm":
        return
    with open_picture(path) as image:
        pixels = image.width * image.height
    if pixels > _MOST_PIXELS:
        raise damaged_file(path, f"it claims {pixels:,} pixels, at most {_MOST_PIXELS:,} are shown")


def _encode(image: Any, side: int) -> bytes:
    """No larger than a side; images of few pixels keep them, without loss."""
    require("PIL.Image", extra="label")
    content = io.BytesIO()
    image.thumbnail((side, side))
    if max(image.size) <= 64:
        image.save(content, format="PNG")
    else:
        image.save(content, format="JPEG", quality=85)
    return content.getvalue()
