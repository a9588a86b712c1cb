from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import atomic_file
from tg_crepe.distributed.manifest import MANIFEST, ShardError, part_name
from tg_crepe.distributed.ring import Ring
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.observers import FlowCheckpoint, FlowObserver, FlowState

#: Unfinished flows keep so many states: the last one, and one more in case a disk has damaged it.
_STATES = 2


class Checkpoints(FlowObserver):
    r"""Keeps the flow of a run in a folder after every outer step, and finds it again after a fault.

    Every process writes its rows of :math:`\mathbf{u}` and :math:`\mathbf{z}` to a file of its own, and when all have,
    the first one writes the manifest, so that a state is complete or is not there. Rows are kept by the global numbers
    of their nodes: another number of processes can go on with them.

    .. code-block:: text

        flow-00-end/         the first flow of the model, which has ended: u alone
        flow-01-step-00003/  the second one after three outer steps
            manifest.json    written last
            part-00000.npz   node, u, row pointers, the other ends of the edges, z

    What a flow starts from is computed anew, which is quick beside the flow and gives the same numbers.

    Args:
        folder (path-like): The folder, which all processes see under this name; it is made where it is not there.
        run (dict): What makes this run this run; a folder of another one is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], run: dict[str, Any]) -> None:
        self._folder = Path(folder)
        self._ring = Ring()
        self._run = json.loads(json.dumps(run))
        self._flow = -1
        self._ring.together(self._prepare)

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for state in self._states("flow-*"):
            kept = _read_manifest(state).get("run")
            if kept != self._run:
                raise ShardError(f"'{state}' is of another run ({kept}, not {self._run}): remove it or write elsewhere")

    def resume(self, graph: CanonicalGraph) -> FlowCheckpoint | None:
        """What was kept of the flow that now begins, from the newest state that can be read."""
        self._flow += 1
        name = f"flow-{self._flow:02d}"
        found = [*self._states(f"{name}-end"), *reversed(self._states(f"{name}-step-*"))]
        for state in self._ring.gather([path.name for path in found])[0]:  # the first process decides for all
            kept = _attempt(self._folder / state, graph)
            if all(self._ring.gather(kept is not None)):
                return kept
        return None

    def on_step(self, state: FlowState) -> None:
        """Keeps the state of the flow that began last."""
        self._keep(state.graph, FlowCheckpoint.of(state))

    def on_end(self, state: FlowState) -> None:
        """Keeps the end of it."""
        self._keep(state.graph, FlowCheckpoint.of(state))

    def _keep(self, graph: CanonicalGraph, state: FlowCheckpoint) -> None:
        ended = state.status is not None
        place = self._folder / f"flow-{self._flow:02d}-{'end' if ended else f'step-{state.step:05d}'}"
        self._ring.together(lambda: _write_part(place, self._ring.rank, graph, state))
        # Nobody goes on before it is complete.
        self._ring.together(lambda: self._complete(place, state) if self._ring.rank == 0 else None)

    def _complete(self, place: Path, state: FlowCheckpoint) -> None:
        """Writes the manifest of a state of which all parts are there, and removes those that are no longer needed."""
        _write_manifest(place, self._run, self._ring.world_size, state)
        needed = _STATES if state.status is None else 0
        steps = self._states(f"flow-{self._flow:02d}-step-*")
        for old in steps[: len(steps) - needed]:
            (old / MANIFEST).unlink()  # first, so that it never looks complete
            shutil.rmtree(old, ignore_errors=True)

    def remove(self) -> None:
        """Removes the folder, when the results are there."""
        self._ring.gather(None)
        if self._ring.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _states(self, pattern: str) -> list[Path]:
        """Complete states, oldest first."""
        return sorted(path for path in self._folder.glob(pattern) if (path / MANIFEST).is_file())


def _write_part(place: Path, rank: int, graph: CanonicalGraph, state: FlowCheckpoint) -> None:
    """Writes the rows of one process."""
    place.mkdir(exist_ok=True)
    number = graph.communicator.number
    number = torch.arange(graph.num_nodes) if number is None else number.cpu()
    arrays = {"node": number[: graph.num_nodes], "u": state.u.cpu()}
    if state.dual is not None:
        rowptr, col, _ = graph.csr_pattern
        arrays |= {"rowptr": rowptr.cpu().long(), "other": number[col.cpu().long()], "dual": state.dual.cpu()}
    with atomic_file(place / f"{part_name(rank)}.npz") as unfinished, unfinished.open("wb") as file:
        np.savez(file, **{name: array.numpy() for name, array in arrays.items()})  # type: ignore[arg-type]


def _write_manifest(place: Path, run: dict[str, Any], parts: int, state: FlowCheckpoint) -> None:
    """Writes what is the same for all processes; the state is complete from here on."""
    sizes = {part_name(rank): (place / f"{part_name(rank)}.npz").stat().st_size for rank in range(parts)}
    content = {
        "run": run,
        "sizes": sizes,
        "step": state.step,
        "still": state.still,
        "status": state.status,
        "energy": state.energy.tolist(),
        "trace": state.trace,
    }
    with atomic_file(place / MANIFEST) as unfinished:
        unfinished.write_text(json.dumps(content), encoding="utf-8")


def _read_manifest(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    return content


def _attempt(place: Path, graph: CanonicalGraph) -> FlowCheckpoint | None:
    """The rows of this process from a state of any number of processes; None where a file is damaged or missing."""
    try:
        content = _read_manifest(place)
        return _read_state(place, content, graph)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _read_state(place: Path, content: dict[str, Any], graph: CanonicalGraph) -> FlowCheckpoint:
    number = graph.communicator.number
    number = torch.arange(graph.num_nodes) if number is None else number.cpu()
    rowptr, col, _ = (part.cpu().long() for part in graph.csr_pattern)
    own = number[: graph.num_nodes]
    width = len(content["energy"])
    weight = graph.edge_weight
    u = torch.empty(graph.num_nodes, width, dtype=weight.dtype)
    dual = None if content["status"] is not None else torch.empty(col.numel(), width, dtype=weight.dtype)
    missing = torch.ones(graph.num_nodes, dtype=torch.bool)
    for part, size in content["sizes"].items():
        path = place / f"{part}.npz"
        if path.stat().st_size != size:
            raise ValueError(f"'{path}' must have {size} bytes")
        with np.load(path, allow_pickle=False) as file:  # the file holds a checksum of every array
            arrays = {name: torch.from_numpy(file[name]) for name in file.files}
        here, there = _common(own, arrays["node"])
        missing[here] = False
        u[here] = arrays["u"][there]
        if dual is not None:
            slots = _slots(rowptr, here)
            kept = _slots(arrays["rowptr"], there)
            if not torch.equal(number[col[slots]], arrays["other"][kept]):
                raise ValueError(f"'{path}' is of another graph")
            dual[slots] = arrays["dual"][kept]
    if bool(missing.any()):
        raise ValueError(f"'{place}' does not hold all nodes")
    return FlowCheckpoint(
        step=content["step"],
        u=u.to(weight.device),
        dual=None if dual is None else dual.to(weight.device),
        energy=torch.tensor(content["energy"], dtype=torch.float64, device=weight.device),
        still=content["still"],
        status=content["status"],
        trace=content["trace"],
    )


def _common(own: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """The places in both of the numbers that are in both."""
    ordered, by_number = torch.sort(kept)
    place = torch.searchsorted(ordered, own).clamp(max=max(kept.numel() - 1, 0))
    here = (ordered[place] == own).nonzero().view(-1) if kept.numel() else own.new_zeros(0)
    return here, by_number[place[here]] if kept.numel() else here


def _slots(rowptr: Tensor, rows: Tensor) -> Tensor:
    """The places of the edges of some rows, row after row."""
    start, count = rowptr[rows], rowptr[rows + 1] - rowptr[rows]
    before = count.cumsum(0) - count
    return torch.repeat_interleave(start - before, count) + torch.arange(int(count.sum()))
