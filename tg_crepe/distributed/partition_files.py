from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe.distributed.manifest import Manifest, file_record, part_name
from tg_crepe.distributed.partition_rows import FeatureRows
from tg_crepe.distributed.shard_files import write_part


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
    folder: Path, rows: FeatureRows, owner: np.ndarray, parts: int, k: int, metric: str, labels: NodeLabels
) -> None:
    """Writes the features of every rank to its part of a folder, a block at a time, and then the manifest.

    Args:
        folder (Path): The folder, which is there and empty.
        rows (FeatureRows): The features.
        owner (numpy.ndarray): The rank of every row, of shape :obj:`[num_nodes]`.
        parts (int): The number of ranks.
        k (int): The number of neighbours of the graph to come.
        metric (str): Its metric.
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
        metric=metric,
        num_classes=labels.num_classes,
        class_names=labels.class_names,
        files=files,
    ).write(folder)
