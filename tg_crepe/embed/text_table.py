from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from tg_crepe._files import check_unique, damaged_file, read_text
from tg_crepe._optional import require
from tg_crepe.embed.source import ItemSource, check_text

#: The endings of a table.
TABLES = (".csv", ".parquet")

#: Columns that hold no text to embed, whatever they hold.
_OTHERS = ("id", "label")


class TextTable(ItemSource):
    r"""A table with a column of texts, and names in a column ``id`` (else 0, 1, 2, …).

    Args:
        path (Path): A ``.csv`` or ``.parquet`` file.
        column (str, optional): The column of texts. (default: :obj:`None`: ``text``, or the only other one with text)
    """

    def __init__(self, path: Path, column: str | None = None) -> None:
        columns = _read_columns(path)
        self.column = _text_column(path, columns, column)
        texts = columns[self.column]
        ids = [str(place) for place in range(len(texts))]
        if "id" in columns:
            if blank := [row for row, name in enumerate(columns["id"], start=1) if name is None or name == ""]:
                raise damaged_file(path, f"{len(blank)} row(s) have no id, the first is row {blank[0]}")
            ids = [str(name).strip() for name in columns["id"]]
        check_unique(path, "the id", ids)
        super().__init__(texts, "texts", str(path), ids)

    def read(self, place: int) -> str:
        """The text of a row."""
        text = self._items[place]
        return check_text("" if text is None else text, f"the text of '{self.ids[place]}' in '{self.name}'")

    def mark(self, place: int) -> str:
        """A checksum of the text."""
        return "blank" if self._items[place] is None else super().mark(place)

    def _mark_of(self, item: Any) -> str:
        return "blank" if item is None else super()._mark_of(item)


def _read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a table; those of a csv file are all text."""
    pyarrow = require("pyarrow", extra="cli")
    try:
        if path.suffix.lower() == ".parquet":
            table = require("pyarrow.parquet", extra="cli").read_table(path)
        else:
            reader = require("pyarrow.csv", extra="cli")
            header = next(csv.reader(io.StringIO(read_text(path), newline="")), [])
            if len(set(header)) < len(header):
                raise damaged_file(path, f"two of its columns have the same name: {', '.join(header[:10])}")
            table = reader.read_csv(
                path,
                # A text may be longer than pyarrow's block, and may hold line ends.
                read_options=reader.ReadOptions(block_size=max(1 << 20, path.stat().st_size + 1)),
                parse_options=reader.ParseOptions(newlines_in_values=True),
                convert_options=reader.ConvertOptions(column_types={name: pyarrow.string() for name in header}),
            )
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise damaged_file(path, f"it is not a whole {path.suffix[1:]} file ({reason})") from error
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _text_column(path: Path, columns: dict[str, list[Any]], wanted: str | None) -> str:
    """The column of texts: the one that was named, or the only one that it can be."""
    names = ", ".join(columns)
    if wanted is not None:
        if wanted not in columns:
            raise damaged_file(path, f"it has no column '{wanted}' (--text), only {names}")
        return wanted
    if "text" in columns:
        return "text"
    textual = [
        name
        for name, cells in columns.items()
        if name not in _OTHERS and any(isinstance(cell, str) and not _is_number(cell) for cell in cells[:100])
    ]
    if len(textual) != 1:
        raise damaged_file(path, f"which column holds the texts is not clear: --text must name one of {names}")
    return textual[0]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
