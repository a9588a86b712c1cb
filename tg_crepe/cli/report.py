from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from tg_crepe.cli._options import Force
from tg_crepe.cli._outputs import check_output


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of propagate --run or of train.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    force: Force = False,
) -> None:
    """Write one self-contained page about a run.

    Example: tg-crepe report run -o report.html
    """
    check_output(out, force, (".html",))
    from tg_crepe.runs import RunFolder

    folder = RunFolder.open(run)
    if importlib.util.find_spec("tg_crepe.report") is None:
        raise ImportError("'tg_crepe.report' is not part of this version; the run's files can be read as they are")
    write_report = importlib.import_module("tg_crepe.report").write_report
    write_report(folder, out)
    typer.echo(f"written: {out}")
