from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tg_crepe.cli._embedding import EmbedOptions
from tg_crepe.cli._options import Cache, Classes, Device, Force, Labels, NewClass, SkipBad, Text, Weights, class_rule
from tg_crepe.cli._outputs import check_output


def report(
    ctx: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FILES", help="A folder of propagate --run, of train or of label; or files and --labels."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
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
) -> None:
    """Write one self-contained page about a run.

    Files (a folder of images, a table of texts, or features) with --labels are labelled first, as propagate does.

    Example: tg-crepe report run -o report.html

    Example: tg-crepe report images --labels labels.csv -o report.html
    """
    check_output(out, force, (".html",), [run, *(labels or [])])
    if importlib.util.find_spec("tg_crepe.report") is None:
        raise ImportError("'tg_crepe.report' is not part of this version; the run's files can be read as they are")
    write_report = importlib.import_module("tg_crepe.report").write_report
    options = EmbedOptions(model, weights, text, device=device, skip_bad=skip_bad, cache=cache)
    from tg_crepe.cli._propagation import run_of

    progress: Console = ctx.obj
    with run_of(run, labels, options, k, progress, class_rule(classes, new_class)) as folder:
        write_report(folder, out)
    typer.echo(f"written: {out}")
    typer.echo(f"next: open it in a browser; tg-crepe label-next {run} -o to-label.csv lists what to label")
