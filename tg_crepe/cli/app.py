from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from tg_crepe import __version__
from tg_crepe.cli._interrupt import answer_signals
from tg_crepe.cli._options import DidNotConverge
from tg_crepe.cli.demo import demo
from tg_crepe.cli.doctor import doctor
from tg_crepe.cli.embed import embed
from tg_crepe.cli.export import export
from tg_crepe.cli.label import label
from tg_crepe.cli.label_next import label_next
from tg_crepe.cli.partition import partition
from tg_crepe.cli.propagate import propagate
from tg_crepe.cli.report import report
from tg_crepe.cli.train import train
from tg_crepe.runs.command_line import note_command_line

#: What a user can put right has this exit code, bad options as much as a missing package.
USAGE_ERROR = 2
#: A command that ran and did not converge, or missed its target.
MISSED = 1
_INTERRUPTED = 130

app = typer.Typer(
    name="tg-crepe",
    help="Pseudo-labels from a few labels and a graph, by the normalised 1-Laplacian energy (CREPE).",
    epilog="Example: tg-crepe demo --labels-per-class 2 --out tg-crepe-demo. "
    "Exit codes: 0 done, 1 ran but did not converge, 2 bad input.",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tg-crepe {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _prepare(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """What every command finds: a screen for progress (stderr) as ``ctx.obj``, and warnings as plain lines on it."""
    ctx.obj = Console(stderr=True)
    ctx.with_resource(_plain_warnings(ctx.obj))
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


for _command in (demo, embed, label, propagate, train, report, label_next, export, partition, doctor):
    app.command()(_command)


def run(args: Sequence[str] | None = None) -> int:
    """Runs a command line (that of the process by default) and returns its exit code.

    What a user can put right is one line on stderr, without a usage text around it and without a traceback.
    """
    typed = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in typed
    # It is an option of the program, but people write it where they are: at the end of the line.
    arguments = [*(["--debug"] if debug else []), *(word for word in typed if word != "--debug")]
    with answer_signals() as guard:
        try:
            code = _answer(arguments, typed, debug)
        except (KeyboardInterrupt, SystemExit):
            if not guard.signum:
                raise
        if guard.signum:
            guard.tell()
            return guard.code
    return code


def _answer(arguments: list[str], typed: list[str], debug: bool) -> int:
    """The exit code of a command line."""
    usage_error: Any = typer.BadParameter.__base__  # UsageError; new typer brings its own click, old typer does not
    try:
        with note_command_line("tg-crepe", typed):
            code = app(args=arguments, prog_name="tg-crepe", standalone_mode=False)
    except usage_error as error:
        return _fail(error.format_message() + _where_it_belongs(error), debug)
    except (ImportError, OSError, ValueError, MemoryError) as error:
        return _fail(str(error) or type(error).__name__, debug)
    except DidNotConverge:
        return MISSED
    except typer.Abort:
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _where_it_belongs(error: Any) -> str:
    """What to do where something stands before the command's name that belongs behind it."""
    if error.ctx is None or error.ctx.parent is not None or "Did you mean" in error.format_message():
        return ""
    return "; the command comes first, what belongs to it after its name (tg-crepe --help lists the commands)"


def _fail(message: str, debug: bool) -> int:
    """One line on stderr, after the traceback if it is wanted, and the exit code."""
    if debug:
        traceback.print_exc()
    Console(stderr=True).print(
        f"[red]error:[/red] {escape(' '.join(message.split()))}", highlight=False, soft_wrap=True
    )
    return USAGE_ERROR


@contextmanager
def _plain_warnings(screen: Console) -> Iterator[None]:
    """Shows the package's own warnings as one yellow line each, and hides what PyG's import says of ``torch.jit``."""
    from tg_crepe.warnings import ConvergenceWarning, DatasetWarning, GraphWarning

    ours = (ConvergenceWarning, DatasetWarning, GraphWarning)
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_plainly(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, ours):
                screen.print(f"[yellow]warning:[/yellow] {escape(str(message))}", highlight=False, soft_wrap=True)
            else:
                show(message, category, *where, **options)

        for kind in ours:
            warnings.simplefilter("always", kind)
        for imported in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", message=r".*torch\.jit", category=imported)
            warnings.filterwarnings("ignore", module=r"torch_geometric\.", category=imported)
        warnings.showwarning = show_plainly
        yield
