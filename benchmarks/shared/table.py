"""Tables of the reports."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shared import machine


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a markdown table."""
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def opening(failed: int) -> list[str]:
    """How a report begins: the machine, and how many cells are missing."""
    return [machine.describe(), "", *([f"**{failed} cells failed and are missing.**", ""] if failed else [])]


def read_rows(path: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a CSV file with numbers as such, perhaps some of its columns; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: number(row[name]) for name in columns or row} for row in csv.DictReader(file)]


def number(text: str) -> str | int | float:
    """A cell of a CSV file as the number that it is, or as it stands."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
