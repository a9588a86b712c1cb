"""Files and folders that appear whole or not at all: written under another name beside the final one, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """The name to write to; it becomes ``path`` when the block ends well, and nothing is left of it otherwise."""
    unfinished = _beside(path)
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The same for a new folder; what was at ``path`` is kept until the new one is there."""
    unfinished, old = _beside(path), _beside(path, "old")
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        if path.exists():
            path.replace(old)
        unfinished.replace(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.replace(path)
        raise
    finally:
        for left in (unfinished, old):
            shutil.rmtree(left, ignore_errors=True)


def _beside(path: Path, ending: str = "tmp") -> Path:
    """A hidden name in the same folder, so that the rename stays on one file system; unique to this process."""
    return path.absolute().with_name(f".{path.name}.{os.getpid()}.{ending}")
