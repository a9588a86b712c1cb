"""What a run keeps of files to show: small images, or the beginnings of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from tg_crepe.embed import Source
    from tg_crepe.runs import RunFolder

#: Pixels a side of a kept image at most, and characters of a kept text.
_SIDE, _CHARACTERS = 48, 160

#: The bytes of a kept image.
PREVIEW_BYTES = 3 * _SIDE**2


def write_previews(run: RunFolder, source: Source, ids: Sequence[str], node: Tensor) -> None:
    """Keeps an image or a snippet of some nodes, which go by the names of the source."""
    import numpy as np

    from tg_crepe.embed.images import quiet_pictures

    place_of = {name: place for place, name in enumerate(source.ids)}
    places = [place_of[ids[i]] for i in node.tolist()]
    if source.kind == "texts":
        run.write_snippets(node, [snippet(source.read(place)) for place in places])
        return
    with quiet_pictures():
        images = [_small(source.read(place)) for place in places]
    side = max(max(image.size) for image in images)
    run.write_thumbnails(node, np.stack([_square(image, side) for image in images]))


def snippet(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else line[: _CHARACTERS - 1].rstrip() + "…"


def _small(image: Any) -> Any:
    """The image in its own shape, no side longer than a kept one's."""
    image.thumbnail((_SIDE, _SIDE))
    return image


def _square(image: Any, side: int) -> Any:
    """Bytes of shape [3, side, side], the image in the middle of a grey square."""
    import numpy as np

    from tg_crepe._optional import require

    sheet = require("PIL.Image", extra="vision").new("RGB", (side, side), (128, 128, 128))
    sheet.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return np.asarray(sheet).transpose(2, 0, 1)
