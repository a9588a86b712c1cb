"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class DidNotConverge(Exception):
    """The command ran, wrote its results and missed its target: exit code 1."""
