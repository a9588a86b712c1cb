"""What a worker of ``benchmarks/contest energies`` and ``parts.py`` does: it labels a few nodes, lets every method
predict and judges it."""

from __future__ import annotations

import functools
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from shared import machine
from shared.families import Family, draw_labels, load_family
from shared.fingerprint import fingerprint, fingerprint_of
from shared.grid import Cell, CellStore, Job, Value
from shared.without_flow import without_flow
from torch import Tensor

from tg_crepe import (
    ConvergenceWarning,
    CrepePropagation,
    EnergyModel,
    GraphWarning,
    PropagationResult,
    get_energy_model,
    knn_graph,
)
from tg_crepe.models import ENERGY_MODELS
from tg_crepe.training import expected_calibration_error


def sampling(draw: str) -> dict[str, str]:
    """What CREPE is told of how its labels came about: those that ``label_next`` asked for are recorded as such."""
    return {"sampling": "chosen"} if draw.endswith("chosen") else {}


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Args:
        make (callable): Makes the model.
        seconds (float): Processor seconds on 4,000 nodes of ten classes, for the plan.
        ours (bool): Whether it is a form of CREPE; the others are what it is compared with.
    """

    make: Callable[..., EnergyModel]
    seconds: float
    ours: bool = False

    def model(self, draw: str) -> EnergyModel:
        """The model for labels that came about in a way."""
        return self.make(**sampling(draw)) if self.ours else self.make()


#: The row that the report is about, and the slow ones of the others.
CREPE = "crepe"
_SECONDS = {"p_laplace": 2.4, "poisson_mbo": 2.0, "sparse_lp": 0.6, "cut_ssl": 1.2, "volume_mbo": 0.4}

#: Every row by its name: CREPE, two reduced forms of it, and all other energies at their defaults.
METHODS: dict[str, Method] = {
    CREPE: Method(CrepePropagation, 4.5, ours=True),
    "no flow": Method(without_flow, 3.0, ours=True),
    "paper": Method(CrepePropagation.paper, 2.0, ours=True),
    **{
        name: Method(functools.partial(get_energy_model, name), _SECONDS.get(name, 0.2))
        for name in ENERGY_MODELS
        if name != CREPE
    },
}

#: What CREPE is compared with.
OTHERS = tuple(name for name, method in METHODS.items() if not method.ours)


def prepare_family(name: str) -> Path:
    """Makes the graph of a family, or finds it in the cache; a file that :func:`read_family` reads."""
    key = fingerprint("shared.families") + fingerprint("tg_crepe.graph.knn")
    path = machine.cache_folder() / "families" / f"{name.replace(' ', '_')}_{key}.npz"
    if not path.exists():
        family = load_family(name)
        arrays = {part: getattr(family, part).numpy() for part in ("y", "edge_index", "edge_weight")}
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")  # two runs at once must not write to one file
        with temporary.open("wb") as file:
            np.savez(file, name=np.array(name), **arrays)
        temporary.replace(path)
    return path


def prepare_families(names: Iterable[str]) -> dict[str, Path]:
    """The files of several families by name; says which are left out."""
    found = {}
    warnings.simplefilter("ignore", GraphWarning)  # some rows of CiteSeer have no word
    for name in names:
        try:
            found[name] = prepare_family(name)
        except (ImportError, FileNotFoundError, SystemExit) as error:  # shared.features exits where there is no folder
            print(f"left out: {name} ({error})", flush=True)
    return found


@functools.lru_cache(maxsize=8)
def read_family(path: Path) -> tuple[Family, str]:
    """A family from the cache, without its features, and a hash of all of it."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {part: file[part] for part in ("y", "edge_index", "edge_weight")}
        name = str(file["name"])
    content = _hash(*arrays.values())
    return Family(name, *(torch.from_numpy(array) for array in arrays.values())), content


def _hash(*arrays: np.ndarray) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:12]


def make_cell(path: Path, draw: str, seed: int, methods: Sequence[str], known: Mapping[str, Method] = METHODS) -> Cell:
    """The cell of a family, a draw and a seed, on which all methods are run.

    Args:
        path (Path): What :func:`prepare_family` gave.
        draw (str): How labels come about.
        seed (int): The seed of the draw.
        methods (list): Which of the known ones.
        known (dict, optional): Every method by its name. (default: :data:`METHODS`)
    """
    family, content = read_family(path)
    own = "".join(model_settings(known[name].model(draw)) for name in methods)
    asking = fingerprint("tg_crepe.active") if draw.endswith("chosen") else ""
    settings = f"{content} {fingerprint('shared.families')} {asking} {own}"
    size = family.y.numel() / 4000 * (0.5 + family.num_classes / 20)
    expected = 0.1 * len(methods) + size * (sum(known[name].seconds for name in methods) + (2.0 if asking else 0.0))
    return Cell({"family": family.name, "draw": draw, "seed": seed}, settings, expected)


def model_settings(model: EnergyModel) -> str:
    """Everything that a model's row depends on but the problem."""
    modules = fingerprint(*(kind.__module__ for kind in type(model).__mro__ if issubclass(kind, EnergyModel)))
    told = f" {model.sampling}" if isinstance(model, CrepePropagation) else ""
    return f"{model!r} {model.soft_label}{told} {modules} {_own_code()}"


@functools.cache
def _own_code() -> str:
    """The code that judges a model; the rest of this file changes no row."""
    return fingerprint_of(measure, judge)


def make_job(
    methods: tuple[str, ...],
    folder: Path,
    paths: tuple[tuple[str, Path], ...],
    threads: int,
    known: Mapping[str, Method] = METHODS,
) -> Job:
    """The job of a worker.

    Args:
        methods (tuple): Which of the known ones are run.
        folder (Path): Where the rows of single methods are kept: only what has changed is run again.
        paths (tuple): The name of every family, and what :func:`prepare_family` gave for it.
        threads (int): How many threads this worker may use.
        known (dict, optional): Every method by its name. (default: :data:`METHODS`)
    """
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    warnings.simplefilter("ignore", ConvergenceWarning)  # the status is a column of the table
    chosen = {name: known[name] for name in methods}
    _warm_up(chosen)
    return functools.partial(run_cell, chosen, CellStore(folder), dict(paths))


def _warm_up(methods: Mapping[str, Method]) -> None:
    """Compiles what is compiled at its first use, which is no part of a method's time."""
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.arange(60) % 3
    edge_index, edge_weight = knn_graph(x + y.unsqueeze(1), 5, metric="euclidean")
    for method in methods.values():
        method.model("1 per class").propagate(y, edge_index, torch.arange(60) < 9, edge_weight)


def run_cell(
    methods: Mapping[str, Method], store: CellStore, paths: dict[str, Path], cell: Cell
) -> list[dict[str, Value]]:
    """One row per method; none where the draw leaves too little of the data."""
    draw = str(cell.point["draw"])
    family, content = read_family(paths[str(cell.point["family"])])
    mask = draw_labels(family, draw, int(cell.point["seed"]))
    if mask is None:
        return []
    rows = []
    for name, method in methods.items():
        model = method.model(draw)
        settings = f"{content} {_hash(mask.numpy())} {model_settings(model)}"
        own = Cell({**cell.point, "method": name}, settings, 0.0)
        if not store.has(own):
            store.write(own, [measure(model, family, mask)])
        rows += store.read(own)
    return rows


def measure(model: EnergyModel, family: Family, mask: Tensor) -> dict[str, Value]:
    """Runs a model, which gets no class but those of the labelled nodes."""
    y = torch.where(mask, family.y, -1)
    start, start_cpu = time.perf_counter(), time.process_time()
    result = model.propagate(y, family.edge_index, mask, family.edge_weight, family.num_classes)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    return {**judge(result, family.y, mask), "seconds": seconds, "cpu_seconds": cpu_seconds}


def judge(result: PropagationResult, truth: Tensor, mask: Tensor) -> dict[str, Value]:
    """How wrong a result is on the unlabelled nodes, and how wrong it expected to be, in per cent."""
    wrong, truth = ((result.label != truth) | ~result.reached)[~mask], truth[~mask]
    by_class = [float(wrong[truth == c].double().mean()) for c in truth.unique().tolist()]
    # As a finding "this label is right", so that a node without a label is wrong whatever its largest probability.
    confidence = result.prob[~mask].amax(dim=1, keepdim=True).clamp(0, 1)
    ece = expected_calibration_error(confidence, (~wrong).long().unsqueeze(1), 15)
    expected = result.expected_error
    parts = {"expected": "value", "expected_low": "low", "expected_high": "high"}
    return {
        "labelled": int(mask.sum()),
        "unlabelled": wrong.numel(),
        "error": 100 * float(wrong.double().mean()),
        "class_error": 100 * sum(by_class) / len(by_class),
        "ece": 100 * (ece or 0.0),
        **{column: "" if expected is None else 100 * float(getattr(expected, part)) for column, part in parts.items()},
        "status": result.status,
    }
