from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tg_crepe.cli._embedding import EmbedOptions, tell_notes, tell_start
from tg_crepe.cli._options import BatchSize, Device, Force, Json, Precision, Size, SkipBad, Text, Weights
from tg_crepe.cli._outputs import check_output, show_json


def embed(
    ctx: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of images, a .csv or .parquet table of texts, or a .npz file of images."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The features to write, .npz.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER",
            help="timm:NAME, torchvision:NAME, sentence-transformers:NAME, or a folder with a model "
            "(timm:tf_efficientnet_lite0 for images, sentence-transformers:all-MiniLM-L6-v2 for texts).",
        ),
    ] = None,
    weights: Weights = None,
    text: Text = None,
    size: Size = None,
    batch_size: BatchSize = None,
    device: Device = None,
    precision: Precision = None,
    skip_bad: SkipBad = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Turn images or texts into features by a pretrained model.

    OUT holds a row for every file or text (x), their names (ids), and what they were made with (made); propagate reads
    it. A command that was killed goes on where it was when it is given again, to the same bits.

    Example: tg-crepe embed images -o features.npz --model timm:tf_efficientnet_lite0

    Example: tg-crepe embed questions.csv --text question -o features.npz
    """
    _check(out, force, source)
    options = EmbedOptions(model, weights, text, size, batch_size, device, precision, skip_bad)
    from tg_crepe.embed import embed_to_file

    screen: Console = ctx.obj
    start = time.perf_counter()
    done = embed_to_file(
        source,
        out,
        model,
        column=text,
        skip_bad=skip_bad,
        on_start=lambda *facts: tell_start(screen, *facts),
        **options.for_encoder,
    )
    seconds = time.perf_counter() - start
    made = done.made
    if as_json:
        facts = {"rows": done.rows, "model": made["model"], "resumed": done.resumed, "truncated": made["truncated"]}
        show_json({**facts, "skipped": made["skipped"], "seconds": round(seconds, 3), "out": str(out)})
        return
    tell_notes(screen, made)
    new = made["source"]["items"] - done.resumed
    typer.echo(f"{done.rows:,} rows by {made['model']}, {seconds:.1f} s, {new / seconds:.1f} {made['kind']} a second")
    typer.echo(f"written: {out}")
    typer.echo(f"next: tg-crepe propagate {out} --labels labels.csv -o pseudo.csv --run run")


def _check(out: Path, force: bool, source: Path) -> None:
    """Says which model a file was made with that would be replaced."""
    if out.is_file() and not force:
        from tg_crepe.embed.file import read_note

        note = read_note(out)
        if note is not None:
            raise typer.BadParameter(
                f"{out} exists, made with {note['model']}; --force replaces it", param_hint="'--out'"
            )
    check_output(out, force, (".npz",), [source])
