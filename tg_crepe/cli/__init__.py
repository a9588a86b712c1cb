"""The command line; the only part of the package that prints."""

from __future__ import annotations

import sys

from tg_crepe._optional import require


def main() -> None:
    """The entry of ``tg-crepe`` and ``python -m tg_crepe``."""
    try:
        for package in ("typer", "rich"):
            require(package, extra="cli")
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    from tg_crepe.cli.app import run

    sys.exit(run())
