"""Tables of the reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a markdown table."""
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
