"""``propagate`` on a folder of shards, by one process or by those that ``torchrun`` has started."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tg_crepe.cli._options import DidNotConverge
from tg_crepe.cli._outputs import show_json

if TYPE_CHECKING:
    from tg_crepe.distributed import Shard
    from tg_crepe.models import EnergyModel, PropagationResult

#: Where the flow of an unfinished run is kept, below the folder of results.
_CHECKPOINT = "checkpoint"


def holds_shards(path: Path) -> bool:
    """Whether this is a folder that ``tg-crepe partition`` wrote."""
    return (path / "manifest.json").is_file()


def propagate_shards(folder: Path, out: Path, model: str, force: bool, as_json: bool, timeout: float) -> None:
    """Infers the labels of all nodes of the shards and writes a folder with one table per process."""
    with _quiet_but_for_the_first():
        from tg_crepe.distributed import Checkpoints, build_graph, open_shard, propagate, write_tables
        from tg_crepe.distributed.processes import process_group
        from tg_crepe.distributed.ring import Ring
        from tg_crepe.models import get_energy_model

        start = time.perf_counter()
        energy = get_energy_model(model)
        with process_group(timeout):
            ring = Ring()
            ring.together(lambda: _prepare(out, force) if ring.rank == 0 else None)
            build_graph(folder)
            shard = ring.together(lambda: open_shard(folder, ring.rank, ring.world_size))
            checkpoints = Checkpoints(out / _CHECKPOINT, _identity(energy, shard))
            result = propagate(energy, shard, observers=(checkpoints,))
            write_tables(out, shard, result)
            checkpoints.remove()
            summary = _summary(ring, shard, result)
            if ring.rank == 0:
                _tell({**summary, "seconds": round(time.perf_counter() - start, 3), "out": str(out)}, as_json)
    if result.status != "converged":
        raise DidNotConverge


@contextmanager
def _quiet_but_for_the_first() -> Iterator[None]:
    """Bad input is told once: all processes know of it, and one of them says so."""
    from tg_crepe.cli.app import USAGE_ERROR
    from tg_crepe.distributed.processes import LostRankError

    try:
        yield
    except LostRankError:
        raise  # each of those that are left has something to tell
    except (ImportError, OSError, ValueError) as error:
        if os.environ.get("RANK", "0") != "0":
            raise typer.Exit(USAGE_ERROR) from error
        raise


def _prepare(out: Path, force: bool) -> None:
    """Makes the folder of results; what an interrupted run kept there stays."""
    from tg_crepe.distributed.processes import was_restarted

    if out.exists() and not out.is_dir():
        raise ValueError(f"'--out' must be a folder for the results of shards, got the file {out}")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"'--out' must be in a folder that exists, got {out}")
    if out.exists() and not was_restarted():
        others = [path for path in out.iterdir() if path.name != _CHECKPOINT]
        if others and not force:
            raise ValueError(f"{out} exists and is not empty; --force replaces it")
        if force:
            _clear(out, others)
    out.mkdir(exist_ok=True)


def _clear(out: Path, others: list[Path]) -> None:
    """Removes earlier results, and nothing else."""
    strange = [
        path.name for path in others if not path.is_file() or (path.suffix != ".parquet" and path.name != "_metadata")
    ]
    if strange:
        raise ValueError(f"{out} must hold nothing but earlier results, got {strange[0]}")
    for path in others:
        path.unlink()
    shutil.rmtree(out / _CHECKPOINT, ignore_errors=True)


def _identity(energy: EnergyModel, shard: Shard) -> dict[str, Any]:
    """What must be the same for an interrupted run to be gone on with; the number of processes need not."""
    options = {name: str(value) for name, value in sorted(vars(energy).items())}
    return {
        "model": type(energy).__name__,
        "options": options,
        "num_nodes": shard.num_nodes,
        "num_classes": shard.num_classes,
        "dtype": str(shard.weight.dtype),
    }


def _summary(ring: Any, shard: Shard, result: PropagationResult) -> dict[str, Any]:
    """Counts over all processes."""
    import torch

    labelled = shard.num_own - int((result.pseudo_mask | ~result.reached).sum())
    counts = ring.sum(torch.tensor([labelled, int((~result.reached).sum())])).tolist()
    return {
        "nodes": shard.num_nodes,
        "processes": ring.world_size,
        "labelled": counts[0],
        "unreached": counts[1],
        "status": result.status,
    }


def _tell(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(summary)
        return
    typer.echo(
        f"{summary['nodes']:,} nodes on {summary['processes']} process(es), {summary['labelled']:,} of them labelled, "
        f"{summary['unreached']:,} out of reach; status {summary['status']}, {summary['seconds']:.1f} s"
    )
    typer.echo(f"written: {summary['out']}")
