"""Shards in a folder: one folder per part with memory-mapped arrays, and a manifest that is written last.

.. code-block:: text

    manifest.json         sizes, checksums, the report of the partition
    part-00000/           node_id, x (features), y, mask, names: those of them that there are
                          rowptr, col, weight, halo_id, send, send_counts, recv_counts: the graph
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import atomic_file
from tg_crepe.distributed.manifest import Manifest, ShardError, file_record, part_name
from tg_crepe.distributed.partition import PartitionReport, ShardSize
from tg_crepe.distributed.shard import Shard

#: What a part may hold about its nodes.
_NODE_ARRAYS = ("y", "mask", "x")


def open_shard(folder: str | os.PathLike[str], rank: int, world_size: int) -> Shard:
    """Opens the shard of a rank, and no other; its arrays are mapped from their files.

    Raises:
        ShardError: (a :class:`ValueError`) when the folder has no manifest or one for another number of processes,
            or when a file of the part is missing, truncated or damaged; the message names the file, what was expected
            and what is there. Also when the folder holds features whose graph is not built yet
            (:func:`~tg_crepe.distributed.build_graph` does it).
    """
    place = Path(folder)
    manifest = Manifest.read(place)
    manifest.check_part(place, rank, world_size)
    if not manifest.has_graph:
        raise ShardError(f"'{place}' holds features alone: its graph must be built first (build_graph)")
    arrays = read_part(place, manifest, rank)
    named = arrays.pop("names", None)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    send = tensors.pop("send").split(tensors.pop("send_counts").tolist())
    return Shard(
        rank=rank,
        world_size=world_size,
        num_nodes=manifest.num_nodes,
        send=list(send),
        recv_counts=tensors.pop("recv_counts").tolist(),
        num_classes=manifest.num_classes,
        multi_label=manifest.multi_label,
        class_names=manifest.class_names,
        names=named,
        **tensors,
    )


def write_shards(folder: str | os.PathLike[str], shards: Iterable[Shard]) -> PartitionReport:
    """Writes all shards of a graph to a folder, one after another, and then the manifest.

    Args:
        folder (path-like): The folder; it is made where it is not there. What is in it is replaced.
        shards (iterable): The shards in the order of their ranks; made one at a time, one at a time is in memory.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / "manifest.json").unlink(missing_ok=True)  # from here on the folder is not complete
    files: dict[str, dict[str, Any]] = {}
    sizes = []
    for shard in shards:
        nodes = {name: getattr(shard, name) for name in ("node_id", *_NODE_ARRAYS, "names")}
        files |= write_part(place, shard.rank, {name: array for name, array in nodes.items() if array is not None})
        files |= write_graph(place, shard)
        sizes.append(ShardSize.of(shard))
    report = PartitionReport(sizes)
    Manifest(
        parts=shard.world_size,
        num_nodes=shard.num_nodes,
        num_features=None if shard.x is None else shard.x.size(1),
        dtype=str(shard.weight.dtype).removeprefix("torch."),
        num_classes=shard.num_classes,
        multi_label=shard.multi_label,
        class_names=shard.class_names,
        files=files,
        report=report.as_dict(),
    ).write(place)
    return report


def write_graph(folder: Path, shard: Shard) -> dict[str, dict[str, Any]]:
    """Writes the arrays of a shard's graph, and returns the records for the manifest."""
    arrays = {name: getattr(shard, name) for name in ("rowptr", "col", "weight", "halo_id")}
    counts = {"send_counts": torch.tensor(shard.send_counts), "recv_counts": torch.tensor(shard.recv_counts)}
    return write_part(folder, shard.rank, {**arrays, "send": torch.cat(shard.send), **counts})


def write_part(folder: Path, rank: int, arrays: dict[str, Tensor | np.ndarray]) -> dict[str, dict[str, Any]]:
    """Writes arrays of a rank's part, each whole or not at all, and returns the records for the manifest."""
    part = folder / part_name(rank)
    part.mkdir(exist_ok=True)
    records = {}
    for name, array in arrays.items():
        path = part / f"{name}.npy"
        with atomic_file(path) as unfinished, unfinished.open("wb") as file:
            np.save(file, array.numpy() if isinstance(array, Tensor) else array, allow_pickle=False)
        records[f"{part.name}/{path.name}"] = file_record(path)
    return records


def read_part(folder: Path, manifest: Manifest, rank: int) -> dict[str, np.ndarray]:
    """All arrays of a rank's part that the manifest names, mapped from their files."""
    arrays = {}
    for file in manifest.files:
        path = folder / file
        if path.parent.name == part_name(rank):
            # Copy on write: torch wants memory that it may write to, and the files stay as they are.
            arrays[path.stem] = np.load(path, mmap_mode="c", allow_pickle=False)
    return arrays
