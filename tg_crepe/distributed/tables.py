from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import atomic_file
from tg_crepe._optional import require
from tg_crepe.distributed.manifest import part_name
from tg_crepe.distributed.ring import Ring
from tg_crepe.distributed.shard import Shard
from tg_crepe.inference.result import PropagationResult

#: The view of all parts as one table; it says where their rows are, and is written last.
MERGED = "_metadata"


def write_tables(folder: Path, shard: Shard, result: PropagationResult) -> None:
    """Writes the rows of this process as ``part-00000.parquet``, and the view of all of them as one table.

    The view is Parquet's own ``_metadata``: ``pyarrow.dataset.parquet_dataset(folder / "_metadata")`` or
    ``pandas.read_parquet(folder)`` read all rows, and no process holds those of another.

    Args:
        folder (pathlib.Path): The folder, which all processes see under this name.
        shard (Shard): The shard of this process.
        result (PropagationResult): Its pseudo-labels.
    """
    parquet, ring = require("pyarrow.parquet", extra="cli"), Ring()
    own: list[Any] = []

    def write() -> None:
        table = require("pyarrow", extra="cli").table(_columns(shard, result))
        name = f"{part_name(ring.rank)}.parquet"
        with atomic_file(folder / name) as unfinished:
            parquet.write_table(table, unfinished, metadata_collector=own)
        own[-1].set_file_path(name)

    ring.together(write)
    parts = ring.gather(own[-1])

    def write_view() -> None:
        if ring.rank == 0:
            schema = parquet.read_schema(folder / f"{part_name(0)}.parquet")
            with atomic_file(folder / MERGED) as unfinished:
                parquet.write_metadata(schema, unfinished, metadata_collector=parts)

    ring.together(write_view)


def _columns(shard: Shard, result: PropagationResult) -> dict[str, Any]:
    """The table of a process: the columns of ``tg-crepe propagate``."""
    names = shard.class_names or tuple(str(number) for number in range(result.prob.size(1)))
    prob = {f"prob_{name}": result.prob[:, place].numpy() for place, name in enumerate(names)}
    if shard.multi_label:
        label = {f"label_{name}": result.label[:, place].numpy() for place, name in enumerate(names)}
    else:
        label = {"label": np.array([*names, ""], dtype=object)[result.label.numpy()]}
    return {
        "id": shard.node_id.numpy() if shard.names is None else shard.names,
        **label,
        **prob,
        "certainty": result.certainty.numpy(),
        "reached": result.reached.numpy(),
    }
