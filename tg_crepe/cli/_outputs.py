"""What the commands write: checked before any work, under another name first, then renamed."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tg_crepe._files import atomic_file
from tg_crepe._optional import require

if TYPE_CHECKING:
    from tg_crepe.runs import RunFolder


def check_output(
    path: Path, force: bool, endings: Sequence[str], inputs: Iterable[Path | None] = (), hint: str = "'--out'"
) -> None:
    """Refuses, before any work, a file of another kind, one that is there, or one that cannot be written.

    An input is never replaced, nor is a file of a run that is read: ``force`` is for what a command has made.
    """
    if path.suffix.lower() not in endings:
        raise typer.BadParameter(f"{path} must end in {' or '.join(endings)}", param_hint=hint)
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder", param_hint=hint)
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder {path.absolute().parent} does not exist", param_hint=hint)
    if not os.access(path.absolute().parent, os.W_OK):
        raise typer.BadParameter(f"the folder {path.absolute().parent} cannot be written", param_hint=hint)
    for given in inputs:
        if given is not None and _is_part_of(path, given):
            raise typer.BadParameter(f"{path} is an input and is never replaced", param_hint=hint)
    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists; --force replaces it", param_hint=hint)


def _is_part_of(path: Path, given: Path) -> bool:
    """Whether a file is an input, by whatever name, or a file of a run or project that is one."""
    from tg_crepe.runs.folder import RUN_FILES

    if not path.exists() or not given.exists():
        return False
    return path.samefile(given) or (path.name in (*RUN_FILES, "project.json") and path.parent.samefile(given))


def inputs_of(run: RunFolder) -> list[Path]:
    """The files that a run says it was made of."""
    settings: dict[str, Any] = run.info["settings"]
    named = [settings.get(name) for name in ("features", "truth", "prior")]
    tables = str(settings["labels"]).split(", ") if settings.get("labels") else []
    return [Path(str(name)) for name in (*named, *tables) if name]


def write_columns(columns: Mapping[str, Any], path: Path) -> None:
    """Writes a table as csv or parquet, by the ending of its name."""
    pyarrow = require("pyarrow", extra="cli")
    table = pyarrow.table(dict(columns))
    with atomic_file(path) as unfinished:
        if path.suffix.lower() == ".csv":
            require("pyarrow.csv", extra="cli").write_csv(table, unfinished)
        else:
            require("pyarrow.parquet", extra="cli").write_table(table, unfinished)


def show_json(content: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def tell_loudly(line: str) -> None:
    """What nobody should miss, on stderr, so that it is seen where stdout goes elsewhere."""
    from rich.console import Console

    screen = Console(stderr=True)
    screen.print(f"warning: {line}", style="bold yellow", highlight=False, soft_wrap=True, markup=False)


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as the text of a csv file."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
