"""Writes what was measured into the pages: README.md and docs/*.md, from the CSV files of benchmarks/results alone.

    python benchmarks/pages.py            # fills every part of every page, and draws or copies their pictures
    python benchmarks/pages.py --check    # only says what differs from the CSV files, and fails if anything does

A part of a page stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the names are those of
:data:`MAKERS`, on whatever page they stand. A part or a picture whose CSV file is missing stays as it is. A picture
that is drawn here keeps a mark of its numbers, so that another release of matplotlib does not make it differ.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from contest import choosing_tables, measured_tables, tables, time_tables, whole_tables
from hybrid.page import EXPERIMENTS, page_text
from shared import few_labels, machine
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
    **choosing_tables.MAKERS,
    **measured_tables.MAKERS,
    **time_tables.MAKERS,
    "verdict": verdict_table,
    **{f"hybrid_{name}": functools.partial(_experiment, name) for name in EXPERIMENTS},
}

#: The pictures of the pages that the commands have drawn beside their CSV files, by what the pages call them.
DRAWN = {
    "certainty": "contest_certainty",
    "evidence": "evidence",
    "families": "contest_energies",
    "graphs": "contest_graphs",
    "labelling": "labelling",
    "parts": "parts",
    "pretrained": "contest_images",
}

#: The picture of labels per class, which is drawn here: it is made of two CSV files.
FEW_LABELS = "few_labels"

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


def fill_pictures(images: Path, folder: Path, check: bool = False) -> list[str]:
    """Draws and copies pictures, or only checks them; the name of every one that differs."""
    found = []
    for name, stem in DRAWN.items():
        source, picture = folder / f"{stem}.png", images / f"{name}.png"
        if source.exists() and not (picture.exists() and picture.read_bytes() == source.read_bytes()):
            found.append(picture.name)
            if not check:
                shutil.copyfile(source, picture)
    if rows := few_labels.default_rows(folder):
        curves, picture = few_labels.Curves(rows), images / f"{FEW_LABELS}.png"
        if not (picture.exists() and curves.mark().encode() in picture.read_bytes()):
            found.append(picture.name)
            if not check:
                few_labels.draw_kinds(curves, picture)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    found = fill_pages(PAGES, machine.RESULTS, check)
    found += fill_pictures(machine.DOCS / "images", machine.RESULTS, check)
    print("\n".join([f"{'differs' if check else 'written'}: {line}" for line in found] or ["all pages are up to date"]))
    sys.exit(1 if check and found else 0)


if __name__ == "__main__":
    main()
