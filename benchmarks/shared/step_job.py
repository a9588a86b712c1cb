"""What a worker of ``benchmarks/more_labels.py`` does: it asks for more and more labels, and judges on the way."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import torch
from shared.families import Family, draw_labels
from shared.family_job import CREPE, METHODS, Method, judge, model_settings, read_family
from shared.fingerprint import fingerprint, fingerprint_of
from shared.grid import Cell, Job, Value
from torch import Tensor

from tg_crepe import LGC, ConvergenceWarning, GraphWarning, get_energy_model
from tg_crepe.active import LabelLoop

#: How many labels there are when methods are judged, and how many are asked for at a time.
STEPS, BATCH = (20, 50, 100, 200), 10

#: Who chooses: CREPE's own loop, or chance. CREPE is told of the former (:func:`shared.family_job.sampling`).
WAYS = ("chosen", "random")

#: Processor seconds of a cell on 4,000 nodes of ten classes, for the plan.
_SECONDS = {"chosen": 6.6, "random": 2.1}

#: CREPE, and quick energies on the same labels. The loop asks for many more labels of some classes than of others, so
#: LGC is there in both forms: as in its paper, and with as much weight for a class of few labels as for one of many.
COMPARED: dict[str, Method] = {
    CREPE: METHODS[CREPE],
    "lgc": METHODS["lgc"],
    "lgc balanced": Method(functools.partial(get_energy_model, "lgc", balanced=True), METHODS["lgc"].seconds),
    "wnll": METHODS["wnll"],
}


def ask(family: Family, way: str, seed: int) -> list[Tensor]:
    """The labelled nodes at every step, each bool of shape [num_nodes]; none where there is too little of the data.

    Both ways start from the same label of every class; a step keeps the labels of the one before.
    """
    first = draw_labels(family, "1 per class", seed)
    if first is None or STEPS[0] <= family.num_classes or STEPS[-1] >= len(family.y):
        return []
    loop = LabelLoop(
        family.y,
        family.edge_index,
        first,
        family.edge_weight,
        model=LGC() if way == "random" else None,  # chance does not look at the answers: the quickest will do
        strategy="random" if way == "random" else "coverage",
        num_classes=family.num_classes,
        seed=seed,
    )
    masks = []
    for step in STEPS:
        while (left := step - int(loop.mask.sum())) > 0:
            nodes = loop.suggest(min(left, BATCH))
            loop.answer(nodes, family.y[nodes])
        masks.append(loop.mask.clone())
    return masks


def measure(family: Family, way: str, seed: int) -> list[dict[str, Value]]:
    """One row per step and method.

    ``error`` is that of the nodes without a label, fewer at every step and, where the doubtful ones are asked for,
    easier ones. ``same_error`` is that of the nodes that no step labels, which are the same at all of them: a change of
    it is one of the answers alone.
    """
    masks, rows = ask(family, way, seed), []
    for step, mask in zip(STEPS, masks, strict=bool(masks)):
        for method, row in COMPARED.items():
            y = torch.where(mask, family.y, -1)
            result = row.model(way).propagate(y, family.edge_index, mask, family.edge_weight, family.num_classes)
            same = judge(result, family.y, masks[-1])["error"]
            rows.append({"labels": step, "method": method, **judge(result, family.y, mask), "same_error": same})
    return rows


def make_cell(path: Path, way: str, seed: int) -> Cell:
    """The cell of a family, a way and a seed: all steps, and all methods on each.

    Args:
        path (Path): What :func:`shared.family_job.prepare_family` gave.
        way (str): One of :data:`WAYS`.
        seed (int): The seed of the first labels, and of chance.
    """
    family, content = read_family(path)
    used = fingerprint("shared.families") + fingerprint("tg_crepe.active") + fingerprint_of(ask, measure)
    own = "".join(model_settings(row.model(way)) for row in COMPARED.values())
    settings = f"{content} {STEPS} {BATCH} {used} {own}"
    size = family.y.numel() / 4000 * (0.5 + family.num_classes / 20)
    return Cell({"family": family.name, "way": way, "seed": seed}, settings, size * _SECONDS[way])


def make_job(paths: tuple[tuple[str, Path], ...], threads: int) -> Job:
    """The job of a worker.

    Args:
        paths (tuple): The name of every family, and what :func:`shared.family_job.prepare_family` gave for it.
        threads (int): How many threads this worker may use.
    """
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    warnings.simplefilter("ignore", ConvergenceWarning)  # the status is a column of the table
    return functools.partial(run_cell, dict(paths))


def run_cell(paths: dict[str, Path], cell: Cell) -> list[dict[str, Value]]:
    """The rows of a cell."""
    family, _ = read_family(paths[str(cell.point["family"])])
    return measure(family, str(cell.point["way"]), int(cell.point["seed"]))
