"""Files and folders that are being written under a hidden name, so that whoever ends the process can remove them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

_unfinished: set[Path] = set()


@contextlib.contextmanager
def noted(*paths: Path) -> Iterator[None]:
    """Keeps the names of what may be there during the block, and removes it in the end."""
    _unfinished.update(paths)
    try:
        yield
    finally:
        for path in paths:
            _remove(path)
            _unfinished.discard(path)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the length of the block."""
    with TemporaryDirectory(prefix="tg-crepe-") as place, noted(Path(place)):
        yield Path(place)


def remove_unfinished() -> None:
    """Removes all that is being written."""
    for path in list(_unfinished):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for _ in range(3):  # another thread may still write into it
            shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
