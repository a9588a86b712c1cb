from __future__ import annotations

from pathlib import Path
from typing import Any

from tg_crepe._files import damaged_file
from tg_crepe.datasets import ImageDataset, ImageFiles
from tg_crepe.datasets.image_folder import _images_in
from tg_crepe.embed.images import image_of, open_image
from tg_crepe.embed.source import ItemSource, Source, file_mark


class ImageFolder(Source):
    r"""All images below a folder, named by their path in it; other files are passed over.

    Args:
        folder (Path): The folder.
    """

    kind = "images"

    def __init__(self, folder: Path) -> None:
        self.paths = _images_in(folder)
        if not self.paths:
            raise damaged_file(folder, "the folder holds no image")
        super().__init__(str(folder), [path.relative_to(folder).as_posix() for path in self.paths])

    def read(self, place: int) -> Any:
        """The image as a viewer shows it."""
        path = self.paths[place]
        check_name(path)
        self.mark(place)
        return open_image(path)

    def _mark_of(self, place: int) -> str:
        """Size and time of the file."""
        return file_mark(self.paths[place])


class DatasetSource(ItemSource):
    """The images of a data set of this package, in files or in memory."""

    def __init__(self, dataset: ImageDataset) -> None:
        super().__init__(dataset.images, "images", dataset.name, dataset.ids)

    def read(self, place: int) -> Any:
        """A file as it is, at its own size; an image in memory."""
        self.mark(place)
        if isinstance(self._items, ImageFiles):
            return open_image(self._items.paths[place])
        return image_of(self._items[place], f"image '{self.ids[place]}' of {self.name}")

    def _mark_of(self, place: int) -> str:
        """Size and time of a file, or a checksum of the pixels."""
        if isinstance(self._items, ImageFiles):
            return file_mark(self._items.paths[place])
        return super()._mark_of(place)


def check_name(path: Path) -> None:
    """Raise where the name of a file is no text: no table could hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        shown = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise damaged_file(shown, "its name is not UTF-8 text and could stand in no table; rename it") from error
