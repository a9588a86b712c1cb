from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from tg_crepe import __version__
from tg_crepe.cli.demo import demo

#: What a user can put right has this exit code, bad options as much as a missing package.
USAGE_ERROR = 2
_INTERRUPTED = 130

app = typer.Typer(
    name="tg-crepe",
    help="Pseudo-labels from a few labels and a graph, by the normalised 1-Laplacian energy (CREPE).",
    epilog="Example: tg-crepe demo --labels-per-class 2 --out tg-crepe-demo",
    add_completion=False,
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
) -> None:
    """What every command finds: a screen for progress (stderr) as ``ctx.obj``, and warnings as plain lines on it."""
    ctx.obj = Console(stderr=True)
    ctx.with_resource(_plain_warnings(ctx.obj))
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command()(demo)


def run(args: Sequence[str] | None = None) -> int:
    """Runs a command line (that of the process by default) and returns its exit code.

    What a user can put right is one line on stderr, without a usage text around it and without a traceback.
    """
    usage_error: Any = typer.BadParameter.__base__  # UsageError; new typer brings its own click, old typer does not
    try:
        code = app(args=None if args is None else list(args), prog_name="tg-crepe", standalone_mode=False)
    except usage_error as error:
        return _fail(error.format_message())
    except (ImportError, OSError) as error:
        return _fail(str(error))
    except typer.Abort:
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    """One line on stderr, and the exit code."""
    Console(stderr=True).print(
        f"[red]error:[/red] {escape(' '.join(message.split()))}", highlight=False, soft_wrap=True
    )
    return USAGE_ERROR


@contextmanager
def _plain_warnings(screen: Console) -> Iterator[None]:
    """Shows the package's own warnings as one yellow line each, and hides what PyG's import says of ``torch.jit``."""
    from tg_crepe.warnings import ConvergenceWarning, GraphWarning

    ours = (ConvergenceWarning, GraphWarning)
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
