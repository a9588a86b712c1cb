from __future__ import annotations

import time
import warnings
from contextlib import ExitStack
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tg_crepe._unfinished import temporary_folder
from tg_crepe.cli._embedding import EmbedOptions, check_made_with, is_source
from tg_crepe.cli._options import (
    BatchSize,
    Cache,
    Classes,
    Device,
    DidNotConverge,
    Force,
    Json,
    Labels,
    NewClass,
    Precision,
    Size,
    SkipBad,
    Text,
    Weights,
    class_rule,
)
from tg_crepe.cli._outputs import check_output, show_json, tell_loudly, write_columns
from tg_crepe.cli._prior import read_prior
from tg_crepe.cli._profile import Stages
from tg_crepe.cli._shards import holds_shards, propagate_shards
from tg_crepe.runs.verdict import POOR, POOR_SHARE, UNKNOWN_ERROR

if TYPE_CHECKING:
    import numpy as np

    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.models import PropagationResult


def propagate(
    ctx: typer.Context,
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES|FILES",
            help="Features (.npy, .npz, .pt, .csv, .parquet), a folder of images, a table of texts, or shards.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to write, .csv or .parquet; for shards a folder.")
    ],
    labels: Labels = None,
    classes: Classes = None,
    new_class: NewClass = False,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep all of the run for report and label-next.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write the page of the run too, .html.")] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="True labels for the report alone: a csv file id,label, or a column of the table of labels.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER",
            help="The pretrained model that makes features of files: timm:NAME, torchvision:NAME, "
            "sentence-transformers:NAME or a folder (one for images, one for texts; see embed).",
        ),
    ] = None,
    energy: Annotated[str | None, typer.Option(help="The method: crepe, lgc, harmonic, poisson, …")] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="How the labels came about, for crepe: random, chosen (by you or by label-next, whose table says so) "
            "or auto, the default."
        ),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Soft evidence, such as what a zero-shot model says: a csv file id,prob_CLASS,… It is trusted as far "
            "as labels and graph agree with it.",
        ),
    ] = None,
    head: Annotated[
        bool | None,
        typer.Option(
            "--head/--no-head",
            help="For crepe: also ask a linear model of the features, as far as the labels trust it (the default).",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours in the graph.")] = 20,
    metric: Annotated[str, typer.Option(help="auto (chosen from the features), cosine or euclidean.")] = "auto",
    text: Text = None,
    show: Annotated[
        Path | None,
        typer.Option(
            metavar="FILES",
            help="What the ids of features stand for: the folder of images, or the table of texts (with --text).",
        ),
    ] = None,
    weights: Weights = None,
    size: Size = None,
    batch_size: BatchSize = None,
    device: Device = None,
    precision: Precision = None,
    skip_bad: SkipBad = False,
    cache: Cache = None,
    backbone: Annotated[
        str | None, typer.Option(help="A network of this package for an image folder, such as resnet18.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Its weights, as train leaves them.")] = None,
    channels: Annotated[int, typer.Option(help="1 (grey) or 3 (colour), for --backbone.")] = 3,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that a process of several waits for the others.")
    ] = 300,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the seconds went.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Infer the labels of all rows from those of a few, with a probability for every class and a certainty.

    The table has the columns id, label, prob_CLASS for every class, certainty and reached, a row for every row of
    FEATURES in the same order. Exit code 1: the solver did not converge.

    A folder of images, or a table with a column of texts (--model or --text), becomes features first, by a pretrained
    model; they are kept beside the files, and the next command finds them there.

    FEATURES may be a folder of shards (tg-crepe partition): then OUT is a folder with a table for every process of
    torchrun and a view of all of them, and a run that was interrupted goes on where it was.

    Example: tg-crepe propagate features.npy --labels labels.csv -o pseudo.csv --run run

    Example: tg-crepe propagate images --labels labels.csv --model timm:tf_efficientnet_lite0 -o pseudo.csv

    Example: torchrun --nproc-per-node 2 -m tg_crepe propagate shards -o pseudo
    """
    stages = Stages(ctx.obj)
    if holds_shards(features):
        if profile:
            raise typer.BadParameter("it does not go with a folder of shards", param_hint="'--profile'")
        name, pretrained = which_energy(model, energy)
        _check_shards(labels, run, backbone, checkpoint, sampling, text, pretrained, prior, head)
        propagate_shards(features, out, name, force, as_json, timeout)
        return
    given = [features, *(labels or []), prior, checkpoint, show, None if truth is None else Path(truth)]
    check_output(out, force, (".csv", ".parquet"), given)
    _check_images(features, backbone, checkpoint)
    if prior is not None and not prior.is_file():
        raise FileNotFoundError(f"the table of evidence '{prior}' is missing")
    if report is not None:
        check_output(report, force, (".html",), given, "'--report'")
    if truth is not None and run is None and report is None:
        raise typer.BadParameter("true labels are for the report of a run: --run must name it", param_hint="'--truth'")
    from tg_crepe.cli._propagation import (
        GraphOptions,
        infer,
        read_node_labels,
        read_nodes,
        with_source,
        write_propagation,
    )
    from tg_crepe.runs import check_free, stage_run

    if run is not None:
        if run.resolve() == out.resolve():
            raise typer.BadParameter("it must be another name than --out", param_hint="'--run'")
        if run.resolve() in out.resolve().parents:
            raise typer.BadParameter(
                f"{out} lies in the folder of the run, which is written as a whole", param_hint="'--out'"
            )
        check_free(run, force, whole=True)
    name, pretrained = which_energy(model, energy)
    if show is not None and (features.is_dir() or (run is None and report is None)):
        raise typer.BadParameter("it goes with a file of features, and with --run or --report", param_hint="'--show'")
    options = EmbedOptions(
        pretrained, weights, None if show is not None else text, size, batch_size, device, precision, skip_bad, cache
    )
    _check_files(features, options, backbone, labels)
    if head and (name != "crepe" or prior is not None):
        raise typer.BadParameter("it goes with the method crepe, and not with --prior", param_hint="'--head'")
    rule = class_rule(classes, new_class)
    choice = GraphOptions(name, sampling, k, metric, head is not False)
    choice.check()

    progress: Any = stages
    stages.imported()
    start = time.perf_counter()
    if backbone is not None and checkpoint is not None:
        from tg_crepe.cli._inputs import read_images

        with progress.status("reading"):
            nodes = read_images(features, backbone, checkpoint, size, channels)
    else:
        nodes = read_nodes(features, options, progress, labels)
    if show is not None:
        nodes = with_source(nodes, show, text)
    with progress.status("reading"):
        known = read_node_labels(features, labels, nodes, rule)
        _tell_fewer(run, known)
        true = _read_truth(truth, labels, nodes, known)
        evidence = None if prior is None else read_prior(prior, nodes.ids, known.class_names, nodes.left_out)
    found = infer(nodes, known, choice, progress, evidence)
    result = found.result
    with progress.status("writing"):
        write_columns(_columns(nodes, known, result), out)
        if run is not None or report is not None:
            settings = {"features": features, "labels": tables_of(labels), "truth": truth, **found.settings(nodes)}
            settings |= {"text": options.text, "prior": prior, "prior_trust": result.prior_trust}
            with ExitStack() as stack:
                place = run or stack.enter_context(temporary_folder()) / out.stem
                with stage_run(place, "propagate", {**settings, "k": k}, force=force) as folder:
                    write_propagation(folder, nodes, known, true, found.graph, result)
                if report is not None:
                    import_module("tg_crepe.report").write_report(place, report)
    _tell(nodes, known, result, found.recall, out, run, time.perf_counter() - start, as_json)
    if report is not None and not as_json:
        typer.echo(f"page: {report}")
    if profile:
        typer.echo(stages.table(), err=True)
    if result.status != "converged":
        raise DidNotConverge


def _tell_fewer(run: Path | None, known: NodeLabels) -> None:
    """One warning where the run that will be replaced knew more: a table was probably forgotten."""
    from tg_crepe.runs import RunFolder
    from tg_crepe.warnings import GraphWarning

    if run is None or not (run / "result.npz").is_file():
        return
    try:
        earlier = RunFolder.open(run).read_result()
    except (ValueError, OSError):
        return  # it is replaced, whatever is wrong with it
    had, have = int(earlier.labelled.sum()), int((known.y >= 0).sum())
    gone = sorted(set(earlier.class_names.tolist()) - set(known.class_names))
    if gone or have < had:
        classes = f", and not the class(es) {', '.join(gone)}" if gone else ""
        warnings.warn(
            f"these tables hold {have:,} labels where the run in '{run}' knew {had:,}{classes}: give all tables, each "
            "with a --labels of its own",
            GraphWarning,
            stacklevel=2,
        )


def _check_shards(*others: object) -> None:
    """Shards hold their labels and their graph."""
    if any(other is not None for other in others):
        raise typer.BadParameter(
            "they do not go with a folder of shards, which hold their labels and features",
            param_hint="'--labels', '--run', '--backbone', '--checkpoint', '--sampling', '--text', '--prior', '--head'",
        )


def which_energy(model: str | None, energy: str | None) -> tuple[str, str | None]:
    """The energy and the pretrained model; the name of an energy after --model is one, as it was before --energy."""
    if model is None:
        return energy or "crepe", None
    from tg_crepe.embed.registry import ENCODERS, is_model_name
    from tg_crepe.models.registry import ENERGY_MODELS

    if model in ENERGY_MODELS and energy in (None, model):
        return model, None
    if not is_model_name(model):
        raise typer.BadParameter(
            f"it must be {', '.join(f'{name}:NAME' for name in ENCODERS)} or a folder with a model, got '{model}'; "
            "the energy is named by --energy",
            param_hint="'--model'",
        )
    return energy or "crepe", model


def _check_images(features: Path, backbone: str | None, checkpoint: Path | None) -> None:
    """A network of this package needs a folder of images, and its weights."""
    if not features.is_dir() and (backbone is not None or checkpoint is not None):
        raise typer.BadParameter("it goes with a folder of images", param_hint="'--backbone', '--checkpoint'")
    if (backbone is None) != (checkpoint is None):
        raise typer.BadParameter("they go together", param_hint="'--backbone', '--checkpoint'")


def _check_files(features: Path, options: EmbedOptions, backbone: str | None, labels: list[Path] | None) -> None:
    """What is said of an embedding must have files to embed, and features must be of the model that is named."""
    embeds = backbone is None and is_source(features, options)
    if backbone is not None and options.model is not None:
        raise typer.BadParameter("it does not go with --backbone", param_hint="'--model'")
    if not embeds and backbone is None and options.model is not None:
        if not features.is_file():
            raise FileNotFoundError(f"the file of features '{features}' is missing")
        check_made_with(features, options.model)
    if not embeds and (options.weights is not None or options.text is not None or options.cache is not None):
        raise typer.BadParameter(
            "they go with a folder of images or a table of texts", param_hint="'--weights', '--text', '--cache'"
        )
    if not features.is_dir() and labels is None:
        raise typer.BadParameter("a file of features needs a table of labels", param_hint="'--labels'")


def tables_of(labels: list[Path] | None) -> str | None:
    """The tables of labels in one cell."""
    return None if labels is None else ", ".join(map(str, labels))


def _read_truth(truth: str | None, labels: list[Path] | None, nodes: Features, known: NodeLabels) -> np.ndarray | None:
    """True labels where the user has some; no model ever sees them. A column is one of the first table of labels."""
    from tg_crepe.cli._inputs import read_truth

    if truth is None:
        return None
    return read_truth(truth, labels[0] if labels else None, nodes.ids, known.class_names, nodes.left_out)


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
    recall: float | None,
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
        "prior_trust": result.prior_trust,
        "recall": recall,
        "status": result.status,
        "seconds": round(seconds, 3),
        "out": str(out),
        "run": None if run is None else str(run),
    }
    if as_json:
        show_json(summary)
        return
    typer.echo(
        f"{summary['nodes']:,} rows, {summary['labelled']:,} of them labelled, {summary['unreached']:,} out of reach; "
        f"status {result.status}, {seconds:.1f} s"
    )
    for name, count in zip(known.class_names, counts, strict=True):
        typer.echo(f"  {name}: {count:,}")
    if known.asked:
        typer.echo("some labels were asked for: their counts say nothing of the size of the classes")
    if result.expected_error is not None:
        typer.echo(f"wrong labels to expect: {result.expected_error}")
        if result.expected_error.value > POOR_SHARE:
            tell_loudly(POOR)
    elif bool(pseudo.any()):
        tell_loudly(UNKNOWN_ERROR)
    typer.echo(f"written: {out}" + ("" if run is None else f", run in {run}"))
    if run is not None:
        typer.echo(f"next: tg-crepe report {run}, or tg-crepe label-next {run} -o to-label.csv")
    else:
        typer.echo(
            "next: --run DIR keeps the run, for tg-crepe report (a page) and tg-crepe label-next (what to label)"
        )
