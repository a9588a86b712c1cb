"""Labels as people write them: what means unlabelled, which names are slips of the pen, and tables ``id,label``.

One reader for the command line, the estimators and the label page.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tg_crepe._files import check_unique, damaged_file, read_table
from tg_crepe.warnings import GraphWarning

#: What pandas and NumPy write for a missing value; "None" and "NA" are names that classes have.
_MISSING = frozenset({"", "nan", "NaN", "<NA>", "NaT"})

#: Characters that nobody sees.
_NO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")

#: Names shorter than this are often one letter apart on purpose.
_SHORT = 4

#: A slip is made by few: the rarer of two names that are alike has at most this share of the labels of the other.
_RARE = 0.2


def clean(text: str) -> str:
    """A name as it is compared: letters composed (file systems of Macs take them apart), single spaces, and nothing
    that has no width."""
    return " ".join(_NO_WIDTH.sub("", unicodedata.normalize("NFC", text)).split())


def is_unlabelled(value: Any, marker: Any = None) -> bool:
    """Whether a value stands for no label: blank, NaN, None, pandas' NA, or the ``marker``, as a number or as text."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip() in _MISSING or (marker is not None and value.strip() == str(marker))
    try:
        if value != value:  # NaN and NaT alone differ from themselves
            return True
        return bool(value == marker)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True


def find_slip(names: Mapping[str, int]) -> tuple[str, str] | None:
    """A name that is probably another one with a slip, and that one; :obj:`None` where no name is.

    Names that differ in case alone are one name. So are two that are one letter apart (left out, put in, changed, or
    two exchanged), unless they are short, differ in a digit or in a word of one letter, or both have many labels.

    Args:
        names (dict): The number of labels of every name.
    """
    by_fold: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (-names[name], name)):
        if (other := by_fold.setdefault(name.casefold(), name)) != name:
            return name, other
    ordered = sorted(names, key=lambda name: (names[name], name))
    by_form: dict[str, list[str]] = {}
    for name in ordered:  # two names one letter apart share a form with a letter left out
        for form in _forms(name) if len(name) >= _SHORT else ():
            by_form.setdefault(form.casefold(), []).append(name)
    for name in ordered:
        alike = {other for form in _forms(name) for other in by_form.get(form.casefold(), ()) if other != name}
        for other in sorted(alike, key=lambda other: (-names[other], other)):
            rare = names[name] <= max(1, _RARE * names[other]) and names[name] <= names[other]
            if rare and _one_edit(name, other) and not _on_purpose(name, other):
                return name, other
    return None


def check_names(where: Path | str, names: Mapping[str, int], hint: str = "--allow-new-class insists") -> None:
    """Raise where a name of a class is probably a slip of another."""
    slip = find_slip(names)
    if slip is not None:
        raise damaged_file(
            where,
            f"the class '{slip[0]}' ({names[slip[0]]} label(s)) looks like '{slip[1]}' ({names[slip[1]]}): correct it "
            f"({hint})",
        )


def check_known(where: Path | str, names: Iterable[str], classes: Sequence[str]) -> None:
    """Raise where a name is none of the ``classes``, with the nearest of them."""
    from difflib import get_close_matches

    for name in sorted(set(names) - set(classes)):
        near = get_close_matches(name, classes, 1) or [c for c in classes if c.casefold() == name.casefold()]
        meant = f"; did you mean '{near[0]}'?" if near else ""
        raise damaged_file(where, f"the class '{name}' is none of {', '.join(classes)}{meant}")


def check_two_classes(where: Path | str, names: Iterable[str]) -> None:
    """Raise where there is nothing to tell apart."""
    given = set(names)
    if len(given) < 2:
        raise damaged_file(where, f"it must hold labels of at least two classes, got {', '.join(given) or 'none'}")


@dataclass(frozen=True)
class LabelTable:
    """The labels of a table by the id of their row, blank ones left out, and whether some were asked for."""

    label_of: dict[str, str]
    asked: bool


def read_label_table(
    path: Path, ids: Collection[str] | None = None, column: str = "label", of: str = "the features"
) -> LabelTable:
    """Reads a csv table with an id and a label in every row; repairs are told in one warning.

    Args:
        path (Path): The table; columns other than these and ``asked`` are left alone.
        ids (collection, optional): The ids that there are. (default: :obj:`None`, any)
        column (str, optional): The column of the labels. (default: :obj:`"label"`)
        of (str, optional): What has these ids. (default: :obj:`"the features"`)
    """
    cells = _read_cells(path, ids, column, of)
    return _without_missing(cells, _marker(cells.given.values()))


@dataclass(frozen=True)
class _Cells:
    """What stands in a table: the label of every id, the ids that were asked for, and cells with spaces around them."""

    path: Path
    given: dict[str, str]
    asked: frozenset[str]
    trimmed: list[str]


def _read_cells(path: Path, ids: Collection[str] | None, column: str, of: str) -> _Cells:
    """The cells of a table, see :func:`read_label_table`."""
    if path.is_dir():
        raise IsADirectoryError(f"the table of labels '{path}' is a folder: name the file in it")
    if not path.is_file():
        raise FileNotFoundError(f"the table of labels '{path}' is missing")
    trimmed: list[str] = []
    cell = column.replace("_", " ")  # as the table's reader names its columns
    rows = read_table(path, ("id", column), trimmed=trimmed)
    rows = [{**row, cell: clean(row[cell])} for row in rows]
    known = set() if ids is None else set(ids)
    if ids is not None:
        rows = _with_known_ids(rows, known)
    check_unique(path, "the id", [row["id"] for row in rows])
    if ids is not None:
        unknown = [row["id"] for row in rows if row["id"] not in known]
        if unknown:
            zeros = min((name for name in known if name.lstrip("0") == unknown[0].lstrip("0")), default=None)
            hint = f"ids look like '{min(known, default='')}'"
            if zeros is not None:
                hint = f"did a spreadsheet drop the zeros of '{zeros}'? format its column as text"
            raise damaged_file(
                path, f"{len(unknown)} of its ids are not among {of}, the first is '{unknown[0]}' ({hint})"
            )
    given = {row["id"]: row[cell] for row in rows}
    return _Cells(path, given, frozenset(row["id"] for row in rows if row.get("asked")), trimmed)


def _without_missing(cells: _Cells, marker: str | None) -> LabelTable:
    """The labels of a table without what stands for none."""
    missing = sorted({label for label in cells.given.values() if label and is_unlabelled(label, marker)})
    label_of = {name: label for name, label in cells.given.items() if label and label not in missing}
    notes = []
    if cells.trimmed:
        notes.append(f"spaces around {len(cells.trimmed)} cell(s) are left out, the first is {cells.trimmed[0]!r}")
    if missing:
        notes.append(f"{', '.join(map(repr, missing))} is taken for unlabelled")
    if notes:
        warnings.warn(f"'{cells.path}': " + "; ".join(notes), GraphWarning, stacklevel=3)
    return LabelTable(label_of, not cells.asked.isdisjoint(label_of))


@dataclass(frozen=True)
class ClassRule:
    """Which names of classes are taken.

    Args:
        classes (list, optional): The classes that there are. (default: :obj:`None`, those that have labels)
        new_class (bool, optional): Whether a name that looks like another one is a class of its own.
            (default: :obj:`False`)
    """

    classes: Sequence[str] | None = None
    new_class: bool = False

    def check(self, where: Path | str, labels: Iterable[str]) -> None:
        """Raise where a label is none of the classes, or probably a slip of another."""
        labels = list(labels)
        if self.classes is not None:
            check_known(where, labels, self.classes)
        elif not self.new_class:
            check_names(where, count_names(labels), "--allow-new-class insists, --classes fixes the names")


def read_label_tables(
    paths: Sequence[Path], ids: Collection[str] | None = None, of: str = "the features", left_out: Collection[str] = ()
) -> LabelTable:
    """Several tables taken together; a row that two of them call differently is an error, and what marks a row without
    a label is the same in all of them. Labels of what was ``left_out`` are dropped."""
    label_of: dict[str, str] = {}
    asked, known = False, None if ids is None else {*ids, *left_out}
    tables = [_read_cells(path, known, "label", of) for path in paths]
    marker = _marker(label for cells in tables for label in cells.given.values())
    for path, cells in zip(paths, tables, strict=True):
        table = _without_missing(cells, marker)
        asked |= table.asked
        if len(paths) > 1 and not table.label_of:
            warnings.warn(f"'{path}': no row has a label; fill in the column label", GraphWarning, stacklevel=2)
        for name, label in table.label_of.items():
            if name not in left_out and label_of.setdefault(name, label) != label:
                raise damaged_file(path, f"it calls '{name}' {label}, a table before it says {label_of[name]}")
    return LabelTable(label_of, asked)


def count_names(labels: Iterable[str]) -> dict[str, int]:
    """How many labels every name has."""
    return dict(Counter(labels))


def _with_known_ids(rows: list[dict[str, str]], known: set[str]) -> list[dict[str, str]]:
    """Rows whose id is written with other bytes than the one that is meant get that one."""
    if all(row["id"] in known for row in rows):
        return rows
    meant = {clean(name): name for name in known}
    return [row if row["id"] in known else {**row, "id": meant.get(clean(row["id"]), row["id"])} for row in rows]


def _marker(labels: Iterable[str]) -> str | None:
    """-1 is the marker beside classes 0, 1, 2, …; with 1 alone it is a class."""
    others = {label for label in labels if label and label != "-1" and label not in _MISSING}
    return "-1" if len(others) > 1 and all(label.isdecimal() for label in others) else None


def _forms(name: str) -> set[str]:
    return {name, *(name[:i] + name[i + 1 :] for i in range(len(name)))}


def _one_edit(one: str, other: str) -> bool:
    """Whether one letter was left out, put in or changed, or two neighbours exchanged."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if len(one) == len(other):
        swapped = one[start + 1 : start + 2] + one[start : start + 1] + one[start + 2 :]
        return one[start + 1 :] == other[start + 1 :] or swapped == other[start:]
    short, long = sorted((one, other), key=len)
    return short[start:] == long[start + 1 :]


def _on_purpose(one: str, other: str) -> bool:
    """Whether two names differ in a digit, or in words of one letter (grade A, grade B)."""
    words, others = re.findall(r"\w+", one), re.findall(r"\w+", other)
    different = set(words) ^ set(others)
    return any(len(word) == 1 for word in different) or re.sub(r"\d", "", one) == re.sub(r"\d", "", other)
