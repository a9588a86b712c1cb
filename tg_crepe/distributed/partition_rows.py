from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tg_crepe.distributed.manifest import ShardError

#: MiB of features that are read at a time, and rows at the most.
_BLOCK, _MOST_ROWS = 32, 65536


class FeatureRows:
    """Rows of features in single precision, read in blocks: of a .npy file, or of an array that is there.

    A file is mapped for one reading and then let go, so that the pages that were read do not pile up.

    Args:
        source (Path or numpy.ndarray): The file, or the array, of shape :obj:`[num_nodes, num_features]`.
    """

    def __init__(self, source: Path | np.ndarray) -> None:
        self.source = source
        array = self._array()
        name = f"'{source}'" if isinstance(source, Path) else "'features'"
        if array.ndim != 2 or array.size == 0:
            raise ShardError(f"{name} must be of shape [num_nodes, num_features], not empty, got {list(array.shape)}")
        if array.dtype.kind not in "fiub":
            raise ShardError(f"{name} must hold real numbers, got {array.dtype}")
        self.num_nodes, self.num_features = array.shape

    def _array(self) -> np.ndarray:
        if not isinstance(self.source, Path):
            return self.source
        if not self.source.is_file():
            raise ShardError(f"the file of features '{self.source}' is missing")
        try:
            return np.load(self.source, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise ShardError(f"'{self.source}' is not a whole .npy file of numbers ({error})") from error

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some rows, float32 of shape :obj:`[num_rows, num_features]`."""
        with np.errstate(over="ignore"):  # what becomes infinite is named with its row later
            return np.array(self._array()[rows], dtype=np.float32)

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """All rows, a block after the other, each with the number of its first row."""
        step = max(1, min(_MOST_ROWS, int(_BLOCK * 2**20 / (4 * self.num_features))))
        for start in range(0, self.num_nodes, step):
            yield start, self.take(slice(start, start + step))
