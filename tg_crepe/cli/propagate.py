from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._options import DidNotConverge, Force, Json
from tg_crepe.cli._outputs import check_output, show_json, write_columns
from tg_crepe.cli._shards import holds_shards, propagate_shards

if TYPE_CHECKING:
    from torch import Tensor

    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.models import EnergyModel, PropagationResult
    from tg_crepe.runs import RunFolder

#: Nodes whose class functions a run keeps, and the moments of the flow at which it does, as shares of its length.
_KEPT, _MOMENTS = 2000, (0.25, 0.5, 1.0)

#: Images that a run keeps beside the pseudo-labels.
_THUMBNAILS = 500


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
        Path | None,
        typer.Option(help="A csv file id,label; blank or absent means unlabelled. Ids of rows without name: 0, 1, …"),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep all of the run for report and label-next.")
    ] = None,
    model: Annotated[str, typer.Option(help="The energy model: crepe, lgc, harmonic, poisson, …")] = "crepe",
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours in the graph.")] = 20,
    metric: Annotated[str, typer.Option(help="cosine or euclidean.")] = "cosine",
    backbone: Annotated[str | None, typer.Option(help="The network for an image folder, such as resnet18.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Its weights.")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Pixels a side that images are brought to.")] = None,
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
        _check_shards(labels, run, backbone, checkpoint)
        propagate_shards(features, out, model, force, as_json, timeout)
        return
    check_output(out, force, (".csv", ".parquet"))
    _check_images(features, backbone, checkpoint, labels)
    if run is not None:
        from tg_crepe.runs import check_free

        check_free(run, force)
    from tg_crepe.graph.knn import check_knn_options
    from tg_crepe.models import get_energy_model

    energy = get_energy_model(model)
    check_knn_options(k, metric, "auto", "gaussian", "max", 0.99)

    progress: Console = ctx.obj
    start = time.perf_counter()
    with progress.status("reading"):
        nodes, known = _read(features, labels, backbone, checkpoint, size, channels)
    with progress.status("graph of the nearest neighbours"):
        graph = _make_graph(nodes, k, metric)
    with progress.status(f"pseudo-labels by {type(energy).__name__}"):
        result = _solve(energy, known, graph)
        moments = None if run is None else _flow_moments(energy, known, graph, result)
    with progress.status("writing"):
        write_columns(_columns(nodes, known, result), out)
        if run is not None:
            settings = {"features": features, "labels": labels, "model": repr(energy), "k": k, "metric": metric}
            _write_run(run, settings, force, nodes, known, graph, result, moments)
    _tell(nodes, known, result, out, run, time.perf_counter() - start, as_json)
    if result.status != "converged":
        raise DidNotConverge


def _check_shards(*others: object) -> None:
    """Shards hold their labels and their graph."""
    if any(other is not None for other in others):
        raise typer.BadParameter(
            "they do not go with a folder of shards, which hold their labels and features",
            param_hint="'--labels', '--run', '--backbone', '--checkpoint'",
        )


def _check_images(features: Path, backbone: str | None, checkpoint: Path | None, labels: Path | None) -> None:
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
    features: Path, labels: Path | None, backbone: str | None, checkpoint: Path | None, size: int | None, channels: int
) -> tuple[Features, NodeLabels]:
    from tg_crepe.cli._inputs import labels_of_folders, read_features, read_images, read_labels

    if backbone is None or checkpoint is None:
        nodes = read_features(features)
    else:
        nodes = read_images(features, backbone, checkpoint, size, channels)
    return nodes, labels_of_folders(nodes) if labels is None else read_labels(labels, nodes.ids)


def _make_graph(nodes: Features, k: int, metric: str) -> tuple[Tensor, Tensor]:
    import torch

    from tg_crepe.graph import knn_graph

    return knn_graph(torch.from_numpy(nodes.x), k, metric)


def _solve(energy: EnergyModel, known: NodeLabels, graph: tuple[Tensor, Tensor]) -> PropagationResult:
    import torch

    return energy.propagate(torch.from_numpy(known.y), graph[0], None, graph[1], len(known.class_names))


def _flow_moments(
    energy: EnergyModel, known: NodeLabels, graph: tuple[Tensor, Tensor], result: PropagationResult
) -> dict[str, Any] | None:
    """The class functions of some nodes at a few moments of CREPE's flow, by flows of a part of its length."""
    import torch

    from tg_crepe.models import CrepePropagation

    if not isinstance(energy, CrepePropagation) or energy.time_step is not None:
        return None
    node = _spread(len(known.y), _KEPT)
    kept = []
    for share in _MOMENTS:
        part = copy.copy(energy)
        part.time = share * energy.time
        u = result.u if share == 1 else _solve(part, known, graph).u
        kept.append((u[node] / u.abs().mean().clamp(min=torch.finfo(u.dtype).tiny)).clamp(-6e4, 6e4).half())
    return {"flow_node": node.numpy(), "flow_time": torch.tensor(_MOMENTS).numpy(), "flow_u": torch.stack(kept).numpy()}


def _spread(count: int, most: int) -> Tensor:
    """At most so many of the numbers below ``count``, evenly spread."""
    import torch

    return torch.linspace(0, count - 1, min(most, count), dtype=torch.float64).round().long()


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


def _write_run(
    path: Path,
    settings: dict[str, Any],
    force: bool,
    nodes: Features,
    known: NodeLabels,
    graph: tuple[Tensor, Tensor],
    result: PropagationResult,
    moments: dict[str, Any] | None,
) -> None:
    import numpy as np

    from tg_crepe._plane import principal_plane
    from tg_crepe.runs import RunResult, staged_run

    with staged_run(path, "propagate", settings, force=force) as run:
        run.write_result(
            RunResult(
                ids=np.array(nodes.ids),
                label=result.label.numpy(),
                prob=result.prob.numpy(),
                certainty=result.certainty.numpy(),
                reached=result.reached.numpy(),
                labelled=known.y >= 0,
                class_names=np.array(known.class_names),
                position=principal_plane(nodes.x),
                **(moments or {}),
            )
        )
        run.write_graph(*graph, len(nodes.ids))
        run.write_trace(result.trace)
        _write_thumbnails(run, nodes)
        run.finish(result.status)


def _write_thumbnails(run: RunFolder, nodes: Features) -> None:
    if nodes.dataset is None:
        return
    kept = _spread(len(nodes.dataset), _KEPT)
    node = kept[_spread(len(kept), _THUMBNAILS)]  # among those whose class functions are kept: one map shows both
    run.write_thumbnails(node, nodes.dataset.fetch(node))


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
        "unreached": int((~result.reached).sum()),
        "classes": dict(zip(known.class_names, counts, strict=True)),
        "mean_certainty": float(result.certainty[pseudo].double().mean()) if bool(pseudo.any()) else None,
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
    typer.echo(f"written: {out}" + ("" if run is None else f", run in {run}"))
