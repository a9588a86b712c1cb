from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._embedding import EmbedOptions
from tg_crepe.cli._options import (
    Cache,
    Classes,
    Device,
    Force,
    Json,
    Labels,
    NewClass,
    SkipBad,
    Text,
    Weights,
    class_rule,
)
from tg_crepe.cli._outputs import check_output, csv_text, inputs_of, show_json

if TYPE_CHECKING:
    from tg_crepe.runs import RunFolder, RunResult


#: Of the table.
COLUMNS = ("id", "label", "guess", "certainty", "asked")


def label_next(
    ctx: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FILES", help="A folder of propagate --run, of train or of label; or files and --labels."
        ),
    ],
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 50,
    strategy: Annotated[
        str, typer.Option(help="coverage, variance, uncertainty, margin, ratio or random.")
    ] = "coverage",
    seed: Annotated[int, typer.Option(min=0, help="The seed of random.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A .csv file instead of the screen.")] = None,
    labels: Labels = None,
    classes: Classes = None,
    new_class: NewClass = False,
    model: Annotated[str | None, typer.Option(metavar="NAME|FOLDER", help="For files: see propagate.")] = None,
    text: Text = None,
    weights: Weights = None,
    device: Device = None,
    skip_bad: SkipBad = False,
    cache: Cache = None,
    k: Annotated[int, typer.Option("-k", min=1, help="For files: neighbours in the graph.")] = 20,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """List the rows that are worth a label most, the best first, as a csv table id,label,guess,certainty,asked.

    Fill in the column label, guess is what is thought now; a row that stays blank stays unlabelled. Then give both
    tables to propagate: --labels labels.csv --labels to-label.csv. The column asked says there that these labels were
    asked for, so that their counts say nothing of the size of the classes.

    Files (a folder of images, a table of texts, or features) with --labels are labelled first, as propagate does.

    Example: tg-crepe label-next run -n 50 -o to-label.csv

    Example: tg-crepe label-next images --labels labels.csv -n 50 -o to-label.csv
    """
    if out is not None:
        check_output(out, force, (".csv",), [run, *(labels or [])])
    from tg_crepe._checks import check_choice
    from tg_crepe.active import STRATEGIES
    from tg_crepe.cli._propagation import run_of

    check_choice("strategy", strategy, STRATEGIES)
    progress: Console = ctx.obj
    options = EmbedOptions(model, weights, text, device=device, skip_bad=skip_bad, cache=cache)
    with run_of(run, labels, options, k, progress, class_rule(classes, new_class)) as folder:
        if out is not None:  # --force is for an earlier list, not for the labels that the run was made of
            check_output(out, force, (".csv",), inputs_of(folder))
        result = folder.read_result()
        with progress.status("ranking"):
            rows = _rank(folder, result, n, strategy, seed)
    if as_json:
        show_json(rows)
    elif out is None:
        typer.echo(csv_text(rows, COLUMNS), nl=False)
    if out is not None:
        from tg_crepe._files import atomic_file

        with atomic_file(out) as unfinished:
            unfinished.write_text(csv_text(rows, COLUMNS), encoding="utf-8")
        if not as_json and not rows:
            typer.echo(f"written: {out}, no row: all are labelled already")
        elif not as_json:
            typer.echo(f"written: {out}, {len(rows)} rows")
            typer.echo(f"next: fill in the column label, then give it beside the first table: --labels {out}")


def _rank(folder: RunFolder, result: RunResult, n: int, strategy: str, seed: int) -> list[dict[str, Any]]:
    import torch

    from tg_crepe.active import label_next

    edge_index, edge_weight, num_nodes = folder.read_graph()
    if num_nodes != len(result.ids):
        raise ValueError(f"'{folder.path}' is not whole: a graph of {num_nodes} rows, {len(result.ids)} pseudo-labels")
    multi_label = result.label.ndim == 2
    nodes = label_next(
        torch.from_numpy(result.prob).double().clamp(0, 1),  # as the page ranks them
        torch.from_numpy(result.labelled),
        torch.from_numpy(edge_index),
        torch.from_numpy(edge_weight),
        n,
        strategy,
        multi_label,
        seed,
    )
    return [
        {
            "id": str(result.ids[node]),
            "label": "",
            "guess": _name(result, node),
            "certainty": round(float(result.certainty[node]), 6),
            "asked": "label-next",
        }
        for node in nodes.tolist()
    ]


def _name(result: RunResult, node: int) -> str:
    """The present guess in the user's words; findings that are present, separated by a bar."""
    if result.label.ndim == 2:
        return "|".join(result.class_names[result.label[node] == 1].tolist())
    return str(result.class_names[result.label[node]]) if result.label[node] >= 0 else ""
