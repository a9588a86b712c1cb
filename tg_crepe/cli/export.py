from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._options import Force, Text
from tg_crepe.cli._outputs import check_output

if TYPE_CHECKING:
    from tg_crepe.export import LabelledItems
    from tg_crepe.runs import RunFolder

#: What can be written, and how the name of the file must end.
TOOLS = {"label-studio": ".json", "fiftyone": ".json", "huggingface": ".parquet"}


def export(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of propagate --run or of train.")],
    to: Annotated[str, typer.Option(metavar="TOOL", help="label-studio, fiftyone or huggingface.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .json, for huggingface .parquet.")],
    files: Annotated[
        Path | None,
        typer.Option(metavar="FILES", help="The images or texts of the run (those that it was made of, if it says)."),
    ] = None,
    text: Text = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="For label-studio: what stands before the id of an image (/data/local-files/?d=FOLDER/).",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write the labels of a run, given and inferred, for Label Studio, FiftyOne or Hugging Face's datasets.

    Given labels are annotations, inferred ones predictions with their certainty.

    Example: tg-crepe export run --to label-studio -o tasks.json

    Example: tg-crepe export run --to huggingface --files questions.csv --text question -o labelled.parquet
    """
    from tg_crepe._checks import check_choice
    from tg_crepe.runs import RunFolder

    check_choice("--to", to, tuple(TOOLS))
    if url is not None and to != "label-studio":
        raise typer.BadParameter("it goes with --to label-studio", param_hint="'--url'")
    check_output(out, force, (TOOLS[to],), [run, files])
    folder = RunFolder.open(run)
    if files is None:
        files, column = _made_of(folder)
        text = text or column
        check_output(out, force, (TOOLS[to],), [files])
    progress: Console = ctx.obj
    with progress.status("reading"):
        items = _read(folder, files, text)
    with progress.status("writing"):
        _write(items, to, out, url)
    inferred = int((~items.given & (items.label >= 0)).sum())
    typer.echo(f"{len(items.ids):,} items, {int(items.given.sum()):,} labels given, {inferred:,} inferred")
    typer.echo(f"written: {out}")
    if to == "label-studio":
        from tg_crepe.export import label_studio_config

        typer.echo(f"the labelling interface that goes with it: {label_studio_config(items)}")


def _made_of(run: RunFolder) -> tuple[Path | None, str | None]:
    """The files that a run says it was made of, and the column of its texts where it was named."""
    settings: dict[str, Any] = run.info["settings"]
    if not settings.get("embedding") or not settings.get("features"):
        return None, None
    return Path(str(settings["features"])), settings.get("text")


def _read(run: RunFolder, files: Path | None, text: str | None) -> LabelledItems:
    """The items of a run, with their files where there are some."""
    from tg_crepe.embed import open_source
    from tg_crepe.export import items_of_run

    return items_of_run(run, None if files is None else open_source(files, None, text))


def _write(items: LabelledItems, to: str, out: Path, url: str | None) -> None:
    from tg_crepe import export
    from tg_crepe._files import atomic_file
    from tg_crepe.export.hugging_face import write_parquet

    if to == "huggingface":
        write_parquet(items, out)
        return
    content = export.label_studio_tasks(items, url) if to == "label-studio" else export.fiftyone_labels(items)
    with atomic_file(out) as unfinished:
        unfinished.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
