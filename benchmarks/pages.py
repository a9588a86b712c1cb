"""Writes what was measured into the pages: README.md and docs/*.md, from the CSV files of benchmarks/results alone.

    python benchmarks/pages.py            # fills every part of every page
    python benchmarks/pages.py --check    # only says which parts differ from their CSV files, and fails if any does

A part of a page stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the names are those of
:data:`MAKERS`, on whatever page they stand. A part whose CSV file is missing stays as it is.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from contest import tables, whole_tables
from hybrid.page import EXPERIMENTS, page_text
from shared import machine
from shared.page import filled, parts
from table1.verdict import verdict_table

#: Makes a part of a page of the folder of the CSV files; nothing where one of them is missing.
Maker = Callable[[Path], str | None]


def _experiment(name: str, folder: Path) -> str | None:
    table = folder / f"hybrid_{name}.csv"
    return page_text(name, table) if table.exists() else None


#: The parts by name.
MAKERS: dict[str, Maker] = {
    "energies": tables.energies,
    "features": tables.features,
    "graphs": tables.graphs,
    "labelling": tables.labelling,
    "certainty": tables.certainty,
    "time": tables.times,
    **whole_tables.MAKERS,
    "verdict": verdict_table,
    **{f"hybrid_{name}": functools.partial(_experiment, name) for name in EXPERIMENTS},
}

PAGES = (machine.DOCS.parent / "README.md", *sorted(machine.DOCS.glob("*.md")))


def fill_page(text: str, folder: Path, makers: Mapping[str, Maker] = MAKERS) -> tuple[str, list[str]]:
    """The text of a page with all of its parts made anew, and the names of those that differ from what was there."""
    changed = []
    for name in parts(text):
        made = makers[name](folder) if name in makers else None
        new = text if made is None else filled(text, name, made)
        if new != text:
            changed.append(name)
        text = new
    return text, changed


def fill_pages(pages: Iterable[Path], folder: Path, check: bool = False) -> list[str]:
    """Fills pages, or only checks them; a line for every part that differs."""
    found = []
    for page in pages:
        text, changed = fill_page(page.read_text(encoding="utf-8"), folder)
        found += [f"{page.name}: {name}" for name in changed]
        if changed and not check:
            machine.write_text(text, page)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    found = fill_pages(PAGES, machine.RESULTS, check)
    print("\n".join([f"{'differs' if check else 'written'}: {line}" for line in found] or ["all pages are up to date"]))
    sys.exit(1 if check and found else 0)


if __name__ == "__main__":
    main()
