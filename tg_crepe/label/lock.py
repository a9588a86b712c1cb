from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from tg_crepe._optional import available


class FolderLock:
    r"""A folder that one process uses at a time; the system lets go of it when the process ends, however it ends.

    Args:
        path (Path): The file that stands for the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Takes the lock, or raises a :class:`ValueError` where another process has it."""
        file = self.path.open("a+", encoding="utf-8")
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise ValueError(
                f"'{self.path.parent}' is open already, in the process {holder}: close that one first"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Lets go of it."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock(file: IO[str]) -> None:
    """An exclusive lock of the system, without waiting."""
    if available("fcntl"):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        import msvcrt

        file.seek(1 << 30)  # a byte that nobody reads: Windows locks bytes, and keeps others from reading them
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
