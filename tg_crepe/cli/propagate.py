from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._options import DidNotConverge, Force, Json
from tg_crepe.cli._outputs import check_output, show_json, write_columns
from tg_crepe.cli._shards import holds_shards, propagate_shards

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.graph.metric import Placement
    from tg_crepe.models import PropagationResult


#: The share of wrong labels from which on they are called poor.
_POOR = 0.25


def propagate(
    ctx: typer.Context,
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES", help="A .npy, .npz, .pt, .csv or .parquet file, an image folder, or shards."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to write, .csv or .parquet; for shards a folder.")
    ],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="A csv file id,label; blank or absent means unlabelled. Ids of rows without name: 0, 1, … "
            "May be given several times: the tables are taken together."
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep all of the run for report and label-next.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="True labels for the report alone: a csv file id,label, or a column of the table of labels.",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="The energy model: crepe, lgc, harmonic, poisson, …")] = "crepe",
    sampling: Annotated[
        str | None,
        typer.Option(
            help="How the labels came about, for crepe: random, chosen (by you or by label-next, whose table says so) "
            "or auto, the default."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours in the graph.")] = 20,
    metric: Annotated[str, typer.Option(help="auto (chosen from the features), cosine or euclidean.")] = "auto",
    backbone: Annotated[str | None, typer.Option(help="The network for an image folder, such as resnet18.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Its weights.")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Pixels per side that images are brought to.")] = None,
    channels: Annotated[int, typer.Option(help="1 (grey) or 3 (colour).")] = 3,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that a process of several waits for the others.")
    ] = 300,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Infer the labels of all rows from those of a few, with a probability for every class and a certainty.

    The table has the columns id, label, prob_CLASS for every class, certainty and reached, a row for every row of
    FEATURES in the same order. Exit code 1: the solver did not converge.

    FEATURES may be a folder of shards (tg-crepe partition): then OUT is a folder with a table for every process of
    torchrun and a view of all of them, and a run that was interrupted goes on where it was.

    Example: tg-crepe propagate features.npy --labels labels.csv -o pseudo.csv --run run

    Example: torchrun --nproc-per-node 2 -m tg_crepe propagate shards -o pseudo
    """
    if holds_shards(features):
        _check_shards(labels, run, backbone, checkpoint, sampling)
        propagate_shards(features, out, model, force, as_json, timeout)
        return
    check_output(out, force, (".csv", ".parquet"))
    _check_images(features, backbone, checkpoint, labels)
    if truth is not None and run is None:
        raise typer.BadParameter("true labels are for the report of a run: --run must name it", param_hint="'--truth'")
    from tg_crepe.cli._propagation import solve, write_propagation
    from tg_crepe.graph.knn import check_knn_options
    from tg_crepe.models import get_energy_model
    from tg_crepe.runs import check_free, stage_run

    if run is not None:
        check_free(run, force)
    if sampling is not None and model != "crepe":
        raise typer.BadParameter("it goes with the model crepe", param_hint="'--sampling'")
    energy = get_energy_model(model, **({} if sampling is None else {"sampling": sampling}))
    check_knn_options(k, metric, "auto", "gaussian", "max", 0.99)

    progress: Console = ctx.obj
    start = time.perf_counter()
    with progress.status("reading"):
        nodes, known = _read(features, labels, backbone, checkpoint, size, channels)
        true = _read_truth(truth, labels, nodes, known)
    if known.asked and sampling is None and model == "crepe":
        energy = get_energy_model(model, sampling="chosen")
    with progress.status("graph of the nearest neighbours"):
        placement, graph = _make_graph(nodes, k, metric)
    with progress.status(f"pseudo-labels by {type(energy).__name__}"):
        result = solve(energy, known, graph)
    with progress.status("writing"):
        write_columns(_columns(nodes, known, result), out)
        if run is not None:
            tables = None if labels is None else ", ".join(map(str, labels))
            settings = {"features": features, "labels": tables, "truth": truth, "model": repr(energy)}
            with stage_run(run, "propagate", {**settings, "metric": str(placement), "k": k}, force=force) as folder:
                write_propagation(folder, nodes, known, true, graph, result)
    _tell(nodes, known, result, out, run, time.perf_counter() - start, as_json)
    if result.status != "converged":
        raise DidNotConverge


def _check_shards(*others: object) -> None:
    """Shards hold their labels and their graph."""
    if any(other is not None for other in others):
        raise typer.BadParameter(
            "they do not go with a folder of shards, which hold their labels and features",
            param_hint="'--labels', '--run', '--backbone', '--checkpoint', '--sampling'",
        )


def _check_images(features: Path, backbone: str | None, checkpoint: Path | None, labels: list[Path] | None) -> None:
    """An image folder needs a network, a file of features needs none."""
    if features.is_dir() and (backbone is None or checkpoint is None):
        raise typer.BadParameter(
            f"{features} is a folder: --backbone and --checkpoint must say how its images become features",
            param_hint="'FEATURES'",
        )
    if not features.is_dir() and (backbone is not None or checkpoint is not None):
        raise typer.BadParameter("it goes with a folder of images", param_hint="'--backbone', '--checkpoint'")
    if not features.is_dir() and labels is None:
        raise typer.BadParameter("a file of features needs a table of labels", param_hint="'--labels'")


def _read(
    features: Path,
    labels: list[Path] | None,
    backbone: str | None,
    checkpoint: Path | None,
    size: int | None,
    channels: int,
) -> tuple[Features, NodeLabels]:
    from tg_crepe.cli._inputs import labels_of_folders, read_features, read_images, read_labels

    if backbone is None or checkpoint is None:
        nodes = read_features(features)
    else:
        nodes = read_images(features, backbone, checkpoint, size, channels)
    return nodes, labels_of_folders(nodes) if labels is None else read_labels(labels, nodes.ids)


def _make_graph(nodes: Features, k: int, metric: str) -> tuple[Placement, tuple[Tensor, Tensor]]:
    """The metric as it was chosen, and the graph."""
    import torch

    from tg_crepe.graph import knn_graph
    from tg_crepe.graph.metric import find_placement

    x = torch.from_numpy(nodes.x)
    placement = find_placement(x, metric)
    return placement, knn_graph(x, k, placement)


def _read_truth(truth: str | None, labels: list[Path] | None, nodes: Features, known: NodeLabels) -> np.ndarray | None:
    """True labels where the user has some; no model ever sees them. A column is one of the first table of labels."""
    from tg_crepe.cli._inputs import read_truth

    return None if truth is None else read_truth(truth, labels[0] if labels else None, nodes.ids, known.class_names)


def _columns(nodes: Features, known: NodeLabels, result: PropagationResult) -> dict[str, Any]:
    """The table of results."""
    import numpy as np

    names = np.array([*known.class_names, ""], dtype=object)
    prob = {f"prob_{name}": result.prob[:, place].numpy() for place, name in enumerate(known.class_names)}
    return {
        "id": nodes.ids,
        "label": names[result.label.numpy()],
        **prob,
        "certainty": result.certainty.numpy(),
        "reached": result.reached.numpy(),
    }


def _tell(
    nodes: Features,
    known: NodeLabels,
    result: PropagationResult,
    out: Path,
    run: Path | None,
    seconds: float,
    as_json: bool,
) -> None:
    """What was done, for a person or for a machine."""
    pseudo = result.pseudo_mask
    counts = result.label[result.reached].bincount(minlength=len(known.class_names)).tolist()
    summary = {
        "nodes": len(nodes.ids),
        "labelled": int((known.y >= 0).sum()),
        "asked": known.asked,
        "unreached": int((~result.reached).sum()),
        "classes": dict(zip(known.class_names, counts, strict=True)),
        "mean_certainty": float(result.certainty[pseudo].double().mean()) if bool(pseudo.any()) else None,
        "expected_error": None if result.expected_error is None else asdict(result.expected_error),
        "status": result.status,
        "seconds": round(seconds, 3),
        "out": str(out),
        "run": None if run is None else str(run),
    }
    if as_json:
        show_json(summary)
        return
    typer.echo(
        f"{summary['nodes']:,} nodes, {summary['labelled']:,} of them labelled, {summary['unreached']:,} out of reach; "
        f"status {result.status}, {seconds:.1f} s"
    )
    for name, count in zip(known.class_names, counts, strict=True):
        typer.echo(f"  {name}: {count:,}")
    if known.asked:
        typer.echo("some labels were asked for: their counts say nothing of the size of the classes")
    if result.expected_error is not None:
        typer.echo(f"wrong labels to expect: {result.expected_error}")
        if result.expected_error.value > _POOR:
            typer.echo("that is poor: more labels (tg-crepe label-next), or features that tell the classes apart, help")
    typer.echo(f"written: {out}" + ("" if run is None else f", run in {run}"))
