from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from tg_crepe._files import check_unique, damaged_file, id_column, read_text
from tg_crepe._optional import require
from tg_crepe.embed.source import ItemSource, check_text

#: The endings of a table.
TABLES = (".csv", ".parquet")

#: Columns that hold no text to embed, whatever they hold.
_OTHERS = ("id", "label")


class Table(ItemSource):
    r"""A table with a column of texts, or of images as Hugging Face keeps them in Parquet, and names in a column ``id``
    (else 0, 1, 2, …).

    Args:
        path (Path): A ``.csv`` or ``.parquet`` file.
        column (str, optional): The column to embed. (default: :obj:`None`: ``text``, the only other one with text, or
            the only one of images)
    """

    def __init__(self, path: Path, column: str | None = None) -> None:
        table = _read(path)
        self.column = _pick(path, table, column)
        cells = table.column(self.column)
        names = [str(place) for place in range(len(cells))]
        if (own := id_column(path, table.column_names)) is not None:
            found = table.column(own).to_pylist()
            if blank := [row for row, name in enumerate(found, start=1) if name is None or not str(name).strip()]:
                raise damaged_file(path, f"{len(blank)} row(s) have no id, the first is row {blank[0]}")
            names = [str(name).strip() for name in found]
        check_unique(path, "the id", names)
        super().__init__(_Cells(cells), "images" if _is_image(cells.type) else "texts", str(path), names)

    def read(self, place: int) -> Any:
        """The text or the image of a row."""
        if self.kind == "images":
            return super().read(place)
        text = self._items[place]
        return check_text("" if text is None else text, f"the text of '{self.ids[place]}' in '{self.name}'")


class _Cells:
    """A column of pyarrow whose cells become objects of Python one at a time."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, place: int) -> Any:
        return self._column[place].as_py()


def _read(path: Path) -> Any:
    """A table of pyarrow; the columns of a csv file are all text."""
    pyarrow = require("pyarrow", extra="cli")
    try:
        if path.suffix.lower() == ".parquet":
            table = require("pyarrow.parquet", extra="cli").read_table(path)
        else:
            table = _read_csv(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise damaged_file(path, f"it is not a whole {path.suffix[1:]} file ({reason})") from error
    if len(set(table.column_names)) < len(table.column_names):
        raise damaged_file(path, f"two of its columns have the same name: {', '.join(table.column_names[:10])}")
    return table


def _read_csv(path: Path) -> Any:
    pyarrow, reader = require("pyarrow", extra="cli"), require("pyarrow.csv", extra="cli")
    header = _check_csv(path, read_text(path))
    if len(header) == 1 and (marks := [mark for mark in ";\t|" if mark in header[0]]):
        raise damaged_file(path, f"its columns must be separated by commas, got {marks[0]!r} ('{header[0][:60]}')")
    return reader.read_csv(
        path,
        # A text may be longer than pyarrow's block, and may hold line ends.
        read_options=reader.ReadOptions(block_size=max(1 << 20, path.stat().st_size + 1)),
        parse_options=reader.ParseOptions(newlines_in_values=True),
        convert_options=reader.ConvertOptions(column_types={name: pyarrow.string() for name in header}),
    )


def _check_csv(path: Path, text: str) -> list[str]:
    """The header of a whole csv file: pyarrow would take a quote that is never closed for the end of the file."""
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a text may be long
    try:
        header: list[str] = []
        for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), strict=True)):
            header = row if number == 0 else header
    except csv.Error as error:
        raise damaged_file(path, f"it is not a whole csv file ({error})") from error
    finally:
        csv.field_size_limit(limit)
    return header


def _pick(path: Path, table: Any, wanted: str | None) -> str:
    """The column to embed: the one that was named, or the only one that it can be."""
    names = ", ".join(table.column_names)
    if wanted is not None:
        if wanted not in table.column_names:
            raise damaged_file(path, f"it has no column '{wanted}' (--text), only {names}")
        return wanted
    if "text" in table.column_names:
        return "text"
    images = [field.name for field in table.schema if _is_image(field.type)]
    textual = [
        name
        for name in table.column_names
        if name.strip().casefold() not in _OTHERS
        and any(isinstance(cell, str) and not _is_number(cell) for cell in table.column(name).slice(0, 100).to_pylist())
    ]
    if len(images or textual) != 1:
        raise damaged_file(path, f"which column holds the texts is not clear: --text must name one of {names}")
    return str((images or textual)[0])


def _is_image(kind: Any) -> bool:
    """Whether a column holds files: their bytes, or bytes and a path, as Hugging Face writes images."""
    types = require("pyarrow.types", extra="cli")
    if types.is_struct(kind):
        return {"bytes", "path"} <= {kind.field(place).name for place in range(kind.num_fields)}
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
