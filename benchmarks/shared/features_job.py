"""What a worker of ``benchmarks/contest features`` does: the default from features to labels, and what people use
otherwise, on the same labels."""

from __future__ import annotations

import functools
import time
import warnings

import numpy as np
import torch
from shared.estimators import ESTIMATORS, code_of, estimate
from shared.families import FEATURES, draw_labels, load_family
from shared.family_job import sampling
from shared.fingerprint import fingerprint, fingerprint_of
from shared.grid import Cell, Job, Value
from torch import Tensor

from tg_crepe.sklearn import CrepeClassifier

#: Our default from features to labels: the graph, CREPE and a linear head.
OURS = "CrepeClassifier"

#: Ours and what it is compared with beside the energies, and about how many seconds of processor time each takes.
SECONDS = {OURS: 2.0, **ESTIMATORS}

#: Every row of the features of ``contest energies`` but the largest, whose graph of 70,000 rows takes longer than all
#: else.
FAMILIES = tuple(name for name in FEATURES if name != "Fashion-MNIST")


def make_cell(family: str, draw: str, seed: int, method: str) -> Cell:
    """The cell of a method on a draw of labels."""
    point: dict[str, Value] = {"family": family, "draw": draw, "seed": seed, "method": method}
    return Cell(
        point, f"{fingerprint('shared.families')} {fingerprint_of(measure, predict)} {code(method)}", SECONDS[method]
    )


def code(method: str) -> str:
    """A text that changes with the code of a method."""
    if method != OURS:
        return code_of(method)
    return fingerprint("tg_crepe.sklearn._crepe", "tg_crepe.models.crepe.model", "tg_crepe.heads.evidence")


def make_job(threads: int) -> Job:
    """The job of a worker."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # linear models that have not converged, nodes that no label reaches
    return run_cell


def run_cell(cell: Cell) -> list[dict[str, Value]]:
    """The row of a cell; none where the draw leaves too little of the data."""
    family, draw, seed = (cell.point[name] for name in ("family", "draw", "seed"))
    x, y, mask = labelled_rows(str(family), str(draw), int(seed))
    return [] if mask is None else [measure(str(cell.point["method"]), x, y, mask, str(draw))]


def measure(method: str, x: Tensor, y: Tensor, mask: Tensor, draw: str = "") -> dict[str, Value]:
    """The error of a method, which gets no class but those of the labelled rows, in per cent, and its seconds."""
    start, start_cpu = time.perf_counter(), time.process_time()
    label = predict(method, x, torch.where(mask, y, -1), mask, draw)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    wrong = (label != y.numpy())[~mask.numpy()]
    return {
        "labelled": int(mask.sum()),
        "unlabelled": wrong.size,
        "error": 100 * float(wrong.mean()),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


@functools.lru_cache(maxsize=1)
def labelled_rows(family: str, draw: str, seed: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, classes and a draw of labels, as in ``contest energies``."""
    data = load_family(family)
    assert data.x is not None  # only families that have features
    return data.x, data.y, draw_labels(data, draw, seed)


def predict(method: str, x: Tensor, y: Tensor, mask: Tensor, draw: str) -> np.ndarray:
    """The labels of all rows, from features and the labels of the mask."""
    if method != OURS:
        return estimate(method, x, y, mask).label
    return np.asarray(CrepeClassifier(**sampling(draw)).fit(x.numpy(), y.numpy()).transduction_)
