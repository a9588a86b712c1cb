"""Features in files: read in blocks from one, written as one part per rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe.distributed.manifest import Manifest, ShardError, file_record, part_name
from tg_crepe.distributed.shard_files import write_part
from tg_crepe.graph.metric import Placement

#: MiB of features that are read at a time, and rows at most.
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


@dataclass(frozen=True)
class NodeLabels:
    """What is known of the nodes beside their features or edges.

    Args:
        y (numpy.ndarray, optional): The class of every node, -1 for none, of shape :obj:`[num_nodes]`.
        class_names (tuple): The names of the classes.
        names (numpy.ndarray, optional): The names of the nodes; :obj:`None` where these are their numbers.
    """

    y: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    names: np.ndarray | None = None

    @property
    def num_classes(self) -> int | None:
        """The number of classes; :obj:`None` without labels."""
        if self.y is None:
            return None
        return len(self.class_names) or int(self.y.max()) + 1

    def arrays(self, nodes: np.ndarray) -> dict[str, np.ndarray]:
        """What a part keeps of them for its nodes."""
        kept = {} if self.y is None else {"y": self.y[nodes].astype(np.int64), "mask": self.y[nodes] >= 0}
        return kept if self.names is None else {**kept, "names": self.names[nodes]}


def write_features(
    folder: Path, rows: FeatureRows, owner: np.ndarray, parts: int, k: int, placement: Placement, labels: NodeLabels
) -> None:
    """Writes the features of every rank to its part of a folder, a block at a time, and then the manifest.

    Args:
        folder (Path): The folder, which is there and empty.
        rows (FeatureRows): The features.
        owner (numpy.ndarray): The rank of every row, of shape :obj:`[num_nodes]`.
        parts (int): The number of ranks.
        k (int): The number of neighbours of the graph to come.
        placement (Placement): Its metric.
        labels (NodeLabels): Labels and names.
    """
    files: dict[str, dict[str, Any]] = {}
    for rank in range(parts):
        nodes = np.flatnonzero(owner == rank)
        files |= write_part(folder, rank, {"node_id": nodes, **labels.arrays(nodes)})
    paths = [folder / part_name(rank) / "x.npy" for rank in range(parts)]
    with ExitStack() as stack:
        opened = [stack.enter_context(path.open("wb")) for path in paths]
        for file, size in zip(opened, np.bincount(owner, minlength=parts).tolist(), strict=True):
            shape = (size, rows.num_features)
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        for start, block in rows.blocks():
            block_owner = owner[start : start + len(block)]
            for rank in np.unique(block_owner):
                opened[rank].write(block[block_owner == rank].astype("<f4", copy=False).tobytes())
    files |= {f"{path.parent.name}/{path.name}": file_record(path) for path in paths}
    Manifest(
        parts=parts,
        num_nodes=rows.num_nodes,
        num_features=rows.num_features,
        dtype="float32",
        k=k,
        metric=placement.metric,
        factor=None if placement.factor is None else tuple(placement.factor.tolist()),
        num_classes=labels.num_classes,
        class_names=labels.class_names,
        files=files,
    ).write(folder)
