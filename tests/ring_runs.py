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

#: Numbers of processes; the same ones form a ring after another, since starting them takes seconds.
WORLDS = (3, 2)


def build_all(folder: Path) -> None:
    """Builds every ``WORLD/CASE`` below a folder with so many processes and leaves what each rank was told."""
    # One server imports what takes seconds, and the processes are forked from it.
    multiprocessing.set_forkserver_preload(["torch.distributed", "torch_geometric", "faiss"])
    mp.start_processes(_work, (folder,), nprocs=max(WORLDS), start_method="forkserver")


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    search._LEAST_ROWS, search._MOST_ROWS = 1, 100  # several blocks a rank, even for small data
    for world in WORLDS:
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
