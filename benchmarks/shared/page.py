"""Measured parts of a page of the documentation: written by the benchmarks, never by hand."""

from __future__ import annotations

from pathlib import Path

from shared import machine


def fill(page: Path, name: str, text: str) -> None:
    """Puts a text between ``<!-- begin name -->`` and ``<!-- end name -->``, in the place of what is there."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    whole = page.read_text(encoding="utf-8")
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"'page' must have a part between '{begin}' and '{end}', got none in {page.name}")
    machine.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", page)
