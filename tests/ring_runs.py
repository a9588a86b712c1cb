"""What the processes of ``distributed/test_ring.py`` do: build graphs from folders of features, and fail together."""

from __future__ import annotations

import datetime
import json
import multiprocessing
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tg_crepe.distributed import ShardError, build_graph
from tg_crepe.distributed import ring_neighbors as search


def build_all(folder: Path, worlds: tuple[int, ...], most_rows: int = 100) -> None:
    """Builds every ``WORLD/CASE`` below a folder with so many processes and leaves what each rank was told.

    The same processes form a ring after another, since starting them takes seconds. With so few rows a block, there
    are several blocks a rank even for small data.
    """
    # One server imports what takes seconds, and the processes are forked from it.
    multiprocessing.set_forkserver_preload(["torch.distributed", "torch_geometric", "faiss"])
    mp.start_processes(_work, (folder, worlds, most_rows), nprocs=max(worlds), start_method="forkserver")


def _work(rank: int, folder: Path, worlds: tuple[int, ...], most_rows: int) -> None:
    torch.set_num_threads(1)
    search._LEAST_ROWS, search._MOST_ROWS = 1, most_rows
    for world in worlds:
        if rank >= world:
            continue
        store = f"file://{folder / f'store{world}'}"
        dist.init_process_group(
            "gloo", init_method=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
        )
        for case in sorted((folder / str(world)).iterdir()):
            (folder / f"{world}-{case.name}-{rank}.json").write_text(json.dumps(_build(case)))
        dist.destroy_process_group()


def _build(case: Path) -> dict[str, object]:
    try:
        return {"report": build_graph(case).as_dict()}
    except ShardError as error:
        return {"error": str(error)}
