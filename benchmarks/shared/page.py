"""Measured parts of a page of the documentation: written by the benchmarks, never by hand."""

from __future__ import annotations

import re
from pathlib import Path

from shared import machine


def fill(page: Path, name: str, text: str) -> None:
    """Puts a text between ``<!-- begin name -->`` and ``<!-- end name -->``, in the place of what is there."""
    machine.write_text(filled(page.read_text(encoding="utf-8"), name, text, page.name), page)


def filled(whole: str, name: str, text: str, page: str = "the page") -> str:
    """The text of a page with one of its parts replaced."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"'page' must have a part between '{begin}' and '{end}', got none in {page}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def parts(whole: str) -> list[str]:
    """The names of the parts of a page, in their order."""
    return re.findall(r"<!-- begin (\S+) -->", whole)
