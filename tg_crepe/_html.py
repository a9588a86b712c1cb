"""Small pieces of HTML for notebooks: every text in them is escaped, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = "padding:1px 8px;text-align:left;border:0"
_BAR = "display:inline-block;height:.7em;background:#0072b2;min-width:1px"


def bar_table(title: str, rows: Sequence[tuple[str, str, float]]) -> str:
    """A table with a bar in every row.

    Args:
        title (str): What stands above it.
        rows (list): The name, the value in words, and the length of the bar as a share from 0 to 1.
    """
    lines = [
        f'<tr><th style="{_CELL};font-weight:400">{escape(name)}</th><td style="{_CELL}">{escape(value)}</td>'
        f'<td style="{_CELL};width:160px"><span style="{_BAR};width:{_pixels(share)}px"></span></td></tr>'
        for name, value, share in rows
    ]
    return f'<table style="border-collapse:collapse"><caption style="text-align:left">{escape(title)}</caption>' + (
        "".join(lines) + "</table>"
    )


def _pixels(share: float) -> int:
    """The length of a bar."""
    return round(150 * min(max(share, 0.0), 1.0))


def pair_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and values."""
    lines = [
        f'<tr><th style="{_CELL};font-weight:400">{escape(name)}</th><td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    ]
    return f'<table style="border-collapse:collapse"><caption style="text-align:left">{escape(title)}</caption>' + (
        "".join(lines) + "</table>"
    )
