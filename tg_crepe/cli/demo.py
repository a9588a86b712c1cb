from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from tg_crepe._files import atomic_file
from tg_crepe._optional import require

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from torch import Tensor

    from tg_crepe.models import EnergyModel, PropagationResult

_K = 10
_MOONS = 1000
_COLUMNS = ("error %", "certainty if right", "if wrong", "seconds")
_PAGE, _RUN = "report.html", "run"


@dataclass
class _Task:
    """A data set as a graph with few labels."""

    x: Tensor
    y: Tensor
    mask: Tensor
    edge_index: Tensor
    edge_weight: Tensor

    def propagate(self, model: EnergyModel) -> PropagationResult:
        """The pseudo-labels of a model, and some moments of its flow for the page."""
        from tg_crepe.runs.kept_nodes import nodes_with_moments

        kept = nodes_with_moments(len(self.y), self.mask)
        return model.propagate(self.y, self.edge_index, self.mask, self.edge_weight, snapshot_nodes=kept)


def demo(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the pictures.")] = Path("tg-crepe-demo"),
    labels_per_class: Annotated[int, typer.Option(min=1, max=100, help="How many images of a digit are labelled.")] = 2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Which images are labelled.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
) -> None:
    """Label scikit-learn's digits from a few images each: a table of models, three pictures, and a page about it.

    The folder also has the run itself, for label-next and report.

    Example: tg-crepe demo --labels-per-class 2 --out tg-crepe-demo
    """
    _check_folder(out, force)
    for package in ("matplotlib", "jinja2"):
        require(package, extra="report")
    datasets = require("sklearn.datasets", extra="sklearn")
    from tg_crepe import CrepePropagation
    from tg_crepe.runs import check_free

    check_free(out / _RUN, force=True, whole=True)
    # The spinner must be gone before anything is printed: both end up on one terminal.
    progress: Console = ctx.obj
    screen = Console(highlight=False, soft_wrap=True)
    with progress.status("graph of the digits"):
        start = time.perf_counter()
        task = _make_task(datasets.load_digits(return_X_y=True), labels_per_class, seed)
        description = _describe(task, labels_per_class, time.perf_counter() - start)
    screen.print(description)

    table, result = _compare(task, progress)
    screen.print(table)

    with progress.status("pictures"):
        moons = _make_task(datasets.make_moons(_MOONS, noise=0.1, random_state=seed), 1, seed)
        pictures = {
            "two_moons.png": _draw_moons(moons, moons.propagate(CrepePropagation())),
            "energy.png": _draw_energy(result),
            "certainty.png": _draw_certainty(task, result),
        }
        _write(pictures, out)
    with progress.status("page"):
        _write_page(task, result, out, {"labels per class": labels_per_class, "k": _K, "metric": "euclidean"}, seed)
    screen.print(f"in {out.resolve()}: {', '.join((*pictures, _PAGE, _RUN))}", markup=False)
    screen.print(f"next: open {out / _PAGE} in a browser; with your own images: tg-crepe label FOLDER", markup=False)


def _check_folder(out: Path, force: bool) -> None:
    """Refuses, before any work, a folder that is in use or that cannot be written."""
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise typer.BadParameter(f"{there} is a file, not a folder", param_hint="'--out'")
    if not os.access(there, os.W_OK):
        raise typer.BadParameter(f"{there} cannot be written", param_hint="'--out'")
    if there == out.absolute() and any(out.iterdir()) and not force:
        raise typer.BadParameter(f"{out} exists and is not empty; --force writes into it", param_hint="'--out'")


def _make_task(data: tuple[np.ndarray, np.ndarray], labels_per_class: int, seed: int) -> _Task:
    """The graph of the nearest neighbours, and the same number of random labels in every class."""
    import numpy as np
    import torch

    from tg_crepe import knn_graph

    x, y = data
    rng = np.random.default_rng(seed)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for label in np.unique(y):
        mask[rng.choice(np.flatnonzero(y == label), labels_per_class, replace=False)] = True
    features = torch.as_tensor(x, dtype=torch.float32)
    return _Task(features, torch.as_tensor(y), mask, *knn_graph(features, k=_K, metric="euclidean"))


def _describe(task: _Task, labels_per_class: int, seconds: float) -> str:
    """What is done, in one sentence."""
    from tg_crepe import graph_report

    report = graph_report(task.edge_index, task.edge_weight, task.mask)
    return (
        f"{report.num_nodes:,} images of handwritten digits, {report.num_labels} of them labelled "
        f"({labels_per_class} per class); the graph of the {_K} nearest neighbours has {report.num_edges:,} edges "
        f"({seconds:.1f} s). Error on the other {report.num_nodes - report.num_labels:,} images:"
    )


def _compare(task: _Task, progress: Console) -> tuple[Table, PropagationResult]:
    """A row for every model, and the answer of the first, CREPE."""
    from tg_crepe import LGC, CrepePropagation, NearestNeighbor

    table = Table("model", *(Column(name, justify="right") for name in _COLUMNS))
    results = []
    for model in (CrepePropagation(), LGC(), NearestNeighbor()):
        name = type(model).__name__
        with progress.status(name):
            start = time.perf_counter()
            results.append(task.propagate(model))
            table.add_row(name, *_row(task, results[-1], time.perf_counter() - start))
    return table, results[0]


def _row(task: _Task, result: PropagationResult, seconds: float) -> list[str]:
    """The error, the mean certainty of right and of wrong pseudo-labels, and the time."""
    correct, certainty = (result.label == task.y)[~task.mask], result.certainty[~task.mask]
    means = [certainty[kind] for kind in (correct, ~correct)]
    shown = [f"{float(kind.mean()):.2f}" if kind.numel() else "–" for kind in means]
    return [f"{100 * (1 - float(correct.double().mean())):.1f}", *shown, f"{seconds:.2f}"]


def _new_figure(**size: Any) -> Figure:
    figure: Figure = require("matplotlib.figure", extra="plot").Figure(layout="constrained", **size)
    return figure


def _draw_moons(task: _Task, result: PropagationResult) -> Figure:
    """The nodes with one label per class, and what CREPE makes of them."""
    import torch

    from tg_crepe.viz import plot_points

    figure = _new_figure(figsize=(12, 3.6))
    before, after = figure.subplots(1, 2)
    plot_points(task.x, torch.where(task.mask, task.y, -1), task.mask, ax=before)
    before.set_title("before: one label per class")
    plot_points(task.x, result.label, task.mask, ax=after)
    error = 100 * float((result.label != task.y)[~task.mask].double().mean())
    after.set_title(f"after: pseudo-labels of CREPE, {error:.1f} % wrong")
    return figure


def _draw_energy(result: PropagationResult) -> Figure:
    from tg_crepe.viz import plot_energy

    figure = _new_figure(figsize=(6, 4))
    plot_energy(result.trace, figure.subplots())
    figure.suptitle("CREPE's flow on the digits")
    return figure


def _draw_certainty(task: _Task, result: PropagationResult) -> Figure:
    from tg_crepe.viz import plot_certainty

    figure = _new_figure(figsize=(6, 4))
    plot_certainty(result.certainty[~task.mask], (result.label == task.y)[~task.mask], figure.subplots())
    figure.suptitle("How certain CREPE is of its pseudo-labels of the digits")
    return figure


def _write(pictures: dict[str, Figure], out: Path) -> None:
    """Writes every picture under another name first, so that no half of one is ever found."""
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        with atomic_file(out / name) as unfinished:
            figure.savefig(unfinished, format="png", dpi=150)


def _write_page(task: _Task, result: PropagationResult, out: Path, settings: dict[str, Any], seed: int) -> None:
    """The run of CREPE on the digits, with its images and the truth, and the page about it."""
    from tg_crepe import CrepePropagation
    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.cli._propagation import write_propagation
    from tg_crepe.datasets import load_digits
    from tg_crepe.report import write_report
    from tg_crepe.runs import stage_run

    digits = load_digits()  # the same images in the same order
    nodes = Features(task.x.numpy(), list(digits.ids), digits)
    known = NodeLabels(task.y.where(task.mask, -1).numpy(), digits.class_names)
    model = CrepePropagation()
    with stage_run(out / _RUN, "demo", {**settings, "model": repr(model)}, seed, force=True) as run:
        write_propagation(run, nodes, known, task.y.numpy(), (task.edge_index, task.edge_weight), result)
    write_report(out / _RUN, out / _PAGE)
