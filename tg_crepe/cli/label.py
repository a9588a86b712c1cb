from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._embedding import EmbedOptions, is_source
from tg_crepe.cli._options import Cache, Device, Force, SkipBad, Text, Weights

if TYPE_CHECKING:
    from tg_crepe.cli._inputs import Features
    from tg_crepe.label import Project, Session


def label(
    ctx: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE|PROJECT",
            help="A folder of images, a table of texts (--text), features (.npz, .csv, …), or a project to go on with.",
        ),
    ],
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="The classes, separated by commas; more can be added any time.")
    ] = None,
    project: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where everything is kept (SOURCE-labels, in this folder).")
    ] = None,
    labels: Annotated[
        list[Path] | None, typer.Option(help="Labels to begin with: a csv file id,label, or Label Studio's JSON.")
    ] = None,
    show: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="For features: a folder of images or a table of texts (--text), by id; it may be SOURCE.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the labels of all items (.csv, .parquet, .pt, .json) and leave; no page."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME|FOLDER", help="The pretrained model: see embed.")] = None,
    text: Text = None,
    weights: Weights = None,
    device: Device = None,
    skip_bad: SkipBad = False,
    cache: Cache = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours in the graph.")] = 20,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port of the page (8642, or a free one).")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    force: Force = False,
) -> None:
    """Label in the browser: answer what is asked, and all other items are labelled along with it.

    The page is on this machine alone. Every answer is on the disk before the page calls it saved; the same command goes
    on where it was. Ctrl-C ends it.

    Example: tg-crepe label images --classes cat,dog

    Example: tg-crepe label questions.csv --text question --project questions-labels
    """
    from tg_crepe._optional import require

    folder = project or _default_folder(source)
    if export is not None:
        _check_export(export, force, [source, show, folder, *(labels or [])])
    else:
        require("starlette", extra="label")
        require("uvicorn", extra="label")
    from tg_crepe.label import Project, Session
    from tg_crepe.label.imports import import_labels

    screen: Console = ctx.obj
    options = EmbedOptions(model, weights, text, device=device, skip_bad=skip_bad, cache=cache)
    found = _open(source, project, folder, options, show, k, screen)
    assert isinstance(found, Project)
    session = Session(found)
    try:
        _add_classes(session, classes)
        for path in labels or []:
            typer.echo(f"{import_labels(session, path):,} labels from {path}")
        if export is not None:
            _export(session, export, screen)
        else:
            _serve(session, port, browser, screen)
    finally:
        session.close()


def _default_folder(source: Path) -> Path:
    """Where the project of a source is kept unless the user says so."""
    return Path(f"{source.resolve().stem if source.is_file() else source.resolve().name}-labels")


def _open(
    source: Path,
    named: Path | None,
    folder: Path,
    options: EmbedOptions,
    show: Path | None,
    k: int,
    screen: Console,
) -> Project:
    """The project that is there, or a new one of the source."""
    from tg_crepe.label import Project

    if Project.is_one(source):
        if named is not None and named.resolve() != source.resolve():
            raise typer.BadParameter(f"{source} is a project itself", param_hint="'--project'")
        return Project.open(source)
    if Project.is_one(folder):
        opened = Project.open(folder)
        if opened.source != str(source.resolve()):
            raise typer.BadParameter(
                f"{folder} is the project of {opened.source}, not of {source}: name another", param_hint="'--project'"
            )
        return opened
    return _create(source, folder, options, show, k, screen)


def _create(source: Path, folder: Path, options: EmbedOptions, show: Path | None, k: int, screen: Console) -> Project:
    from tg_crepe.cli._propagation import read_nodes
    from tg_crepe.graph.knn import check_knn_options
    from tg_crepe.label import Project
    from tg_crepe.label.items import Items
    from tg_crepe.label.project import check_free

    check_free(folder)
    check_knn_options(k, "auto", "auto", "gaussian", "max", 0.99)
    embedded = is_source(source, options if show is None else replace(options, text=None))  # else --text is of --show
    if embedded and show is not None:
        raise typer.BadParameter(f"{source} is shown itself; it goes with features", param_hint="'--show'")
    if show is not None and show.is_file() and source.is_file() and show.samefile(source):
        nodes = _read_beside(source, options.text)
    else:
        nodes = read_nodes(source, options if embedded else replace(options, text=None), screen)
    shown = source if embedded else show
    if shown is not None and not embedded:
        from tg_crepe.embed.source import open_source

        Items(nodes.ids, open_source(shown, None, options.text))  # what is wrong with it is said before any work
    settings = {
        "source": str(source.resolve()),
        "k": min(k, len(nodes.ids) - 1),
        "metric": "auto",
        "model": nodes.model,
    }
    with screen.status("graph of the nearest neighbours"):
        return Project.create(
            folder, nodes.x, nodes.ids, settings, None if shown is None else str(shown.resolve()), options.text
        )


def _read_beside(source: Path, column: str | None) -> Features:
    """The features of a table that holds what is to be shown, too."""
    from tg_crepe.cli._inputs import read_features
    from tg_crepe.embed.table import TABLES

    if column is None or source.suffix.lower() not in TABLES:
        raise typer.BadParameter("a table of features that shows a column needs its name", param_hint="'--text'")
    return read_features(source, leave_out=column)


def _add_classes(session: Session, classes: str | None) -> None:
    """Those that are not there yet."""
    import secrets

    names = [] if classes is None else [" ".join(name.split()) for name in classes.split(",")]
    if any(not name for name in names):
        raise typer.BadParameter(f"a name is blank in {classes!r}", param_hint="'--classes'")
    known = {name.casefold() for name in session.book.classes.values()}
    fresh = [name for name in dict.fromkeys(names) if name.casefold() not in known]
    if fresh:
        session.add_classes(f"command-{secrets.token_hex(8)}", fresh)


def _check_export(path: Path, force: bool, inputs: Sequence[Path | None]) -> None:
    from tg_crepe.cli._outputs import check_output
    from tg_crepe.label.exports import ENDINGS

    check_output(path, force, ENDINGS, inputs, "'--export'")


def _export(session: Session, path: Path, screen: Console) -> None:
    from tg_crepe.label.exports import export
    from tg_crepe.label.solve import solve_book

    with screen.status("pseudo-labels"):
        session.solved = solve_book(session.book, session.project.x, session.project.prepared)
    export(session, path)
    typer.echo(f"written: {path}")


def _serve(session: Session, port: int | None, browser: bool, screen: Console) -> None:
    from tg_crepe.label.serve import serve

    def ready(address: str) -> None:
        items, known = len(session), len(session.book.items("class"))
        typer.echo(f"{items:,} items, {known:,} of them labelled, in {session.project.folder}; Ctrl-C ends it")
        typer.echo(f"open: {address}")
        if browser and _has_screen():
            _open_browser(address)

    def log(line: str) -> None:
        screen.print(line, highlight=False, soft_wrap=True, markup=False)

    serve(session, port, ready, log)


def _has_screen() -> bool:
    """Whether a browser could show itself; a text browser in the terminal would only be in the way."""
    return (
        os.name == "nt"
        or os.uname().sysname == "Darwin"
        or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )


def _open_browser(address: str) -> Any:
    import webbrowser

    return webbrowser.open(address)
