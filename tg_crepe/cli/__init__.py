"""The command line; the only part of the package that prints."""

from __future__ import annotations

import sys

from tg_crepe._optional import require
from tg_crepe.cli._interrupt import SIGNALS, answer_signals, die


def main() -> None:
    """The entry of ``tg-crepe`` and ``python -m tg_crepe``."""
    with answer_signals() as guard:  # before the imports, which take seconds
        try:
            code = _run()
        except (KeyboardInterrupt, SystemExit):
            if not guard.signum:
                raise
            guard.tell()
            code = guard.code
    if code - 128 in SIGNALS:
        die(code - 128)
    sys.exit(code)


def _run() -> int:
    try:
        for package in ("typer", "rich"):
            require(package, extra="cli")
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    from tg_crepe.cli.app import run

    return run()
