from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tg_crepe._optional import require

if TYPE_CHECKING:
    import pandas as pd

    from tg_crepe.inference.result import PropagationResult


def result_table(
    result: PropagationResult, ids: Sequence[Any] | None, class_names: Sequence[str] | None
) -> pd.DataFrame:
    """A result as a table, see :meth:`PropagationResult.to_pandas`."""
    num_nodes, num_classes = result.prob.shape
    names = _names("class_names", class_names, num_classes, "num_classes")
    index = _names("ids", ids, num_nodes, "num_nodes")
    pandas = require("pandas", extra="pandas")
    label = result.label.cpu().numpy()
    columns: dict[str, Any] = {}
    if label.ndim == 1:
        # A categorical: classes keep their order and their type, and -1 is its code of a missing value.
        columns["label"] = pandas.Categorical.from_codes(label, categories=names)
    else:
        for place, name in enumerate(names):
            known = [None if value < 0 else value for value in label[:, place].tolist()]
            columns[f"label_{name}"] = pandas.array(known, dtype="Int64")
    for place, name in enumerate(names):
        columns[f"prob_{name}"] = result.prob[:, place].cpu().numpy().copy()
    columns["certainty"] = result.certainty.cpu().numpy().copy()
    columns["reached"] = result.reached.cpu().numpy().copy()
    columns["labelled"] = (result.reached & ~result.pseudo_mask).cpu().numpy()
    return pandas.DataFrame(columns, index=pandas.Index(index, name="id"))


def _names(argument: str, names: Sequence[Any] | None, count: int, count_name: str) -> list[Any]:
    """Names that were given, as many as there must be and no two alike, or numbers."""
    if names is None:
        return list(range(count))
    found = list(names)
    if len(found) != count or len(set(found)) != count:
        repeated = "" if len(found) != count else ", some of them alike"
        raise ValueError(f"'{argument}' must hold {count_name} = {count} different names, got {len(found)}{repeated}")
    return found
