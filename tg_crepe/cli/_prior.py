"""Soft evidence of a table, for ``propagate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def read_prior(path: Path, ids: Sequence[str], class_names: Sequence[str], left_out: Sequence[str] = ()) -> np.ndarray:
    """What a table ``id,prob_CLASS,…`` says of the nodes, of shape [num_nodes, num_classes]; NaN where it says nothing.

    The columns are called as in what ``propagate`` writes. A row that is not there, whose cells are all blank, or that
    speaks mostly for classes without a label is no opinion.

    Args:
        path (Path): The table.
        ids (list): The names of the nodes.
        class_names (list): The classes that have labels; each needs a column.
        left_out (list, optional): Names that are none of the nodes and may stand there. (default: none)
    """
    import numpy as np

    from tg_crepe._files import check_unique, damaged_file, read_table

    columns = [f"prob_{name}" for name in class_names]
    rows = read_table(path, ("id", *columns))
    check_unique(path, "the id", [row["id"] for row in rows])
    place, ignored = {name: number for number, name in enumerate(ids)}, set(left_out)
    wanted = [column.replace("_", " ") for column in columns]  # as the table's reader names its columns
    prior = np.full((len(ids), len(columns)), np.nan)
    for row in rows:
        if row["id"] in ignored:
            continue
        if row["id"] not in place:
            raise damaged_file(path, f"its id '{row['id']}' is none of the {len(ids)} rows, such as '{ids[0]}'")
        cells = [row[name] for name in wanted]
        if not any(cells):
            continue
        values = [_number(path, row["id"], cell) for cell in cells]
        others = [row[name] for name in row if name.startswith("prob ") and name not in wanted]
        elsewhere = sum(_number(path, row["id"], cell) for cell in others if cell)
        if 0 < elsewhere >= sum(values):
            continue
        prior[place[row["id"]]] = values
    return prior


def _number(path: Path, name: str, cell: str) -> float:
    """A cell as a share."""
    from tg_crepe._files import damaged_file

    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise damaged_file(path, f"the row '{name}' must hold a number >= 0 in every column prob_CLASS, got '{cell}'")
    return value
