"""Objects with columns: frames of pandas and sets of Hugging Face, without importing either."""

from __future__ import annotations

from typing import Any

from tg_crepe.embed.encoder import KINDS
from tg_crepe.embed.source import ItemSource

#: The names that a column has by custom, for each kind.
_CUSTOM = {"texts": ("text", "sentence", "content"), "images": ("image", "img", "path", "file")}


def frame_source(source: Any, kind: str | None, column: str | None) -> ItemSource | None:
    """A pandas frame or series, or a data set of Hugging Face, as a source; None for anything else."""
    package = type(source).__module__.partition(".")[0]
    if package == "pandas" and hasattr(source, "columns"):
        name, found = _pick(list(source.columns), source.dtypes.to_dict(), kind, column)
        ids = source["id"] if "id" in source.columns else source.index
        return ItemSource(source[name].tolist(), found, f"column '{name}' of the frame", [str(value) for value in ids])
    if package == "pandas" and hasattr(source, "tolist"):
        values = source.tolist()
        found = kind or ("texts" if values and isinstance(values[0], str) else "images")
        ids = getattr(source, "index", range(len(values)))
        return ItemSource(values, found, "the series", [str(value) for value in ids])
    if package == "datasets" and hasattr(source, "features"):
        name, found = _pick(list(source.column_names), source.features, kind, column)
        ids = [str(value) for value in source["id"]] if "id" in source.column_names else None
        return ItemSource(source.select_columns([name])[name], found, f"column '{name}' of the data set", ids)
    return None


def _pick(names: list[Any], types: Any, kind: str | None, column: str | None) -> tuple[Any, str]:
    """The column to embed and what it holds."""
    if column is not None:
        if column not in names:
            raise ValueError(f"'column' must be one of {', '.join(map(str, names))}, got '{column}'")
        if kind is None:
            kind = "images" if column in _CUSTOM["images"] or "Image" in str(types[column]) else "texts"
        return column, kind
    for one in KINDS[::-1] if kind is None else (kind,):
        if found := [name for name in _CUSTOM[one] if name in names]:
            return found[0], one
    raise ValueError(f"'column' must say which column to embed, one of {', '.join(map(str, names))}, got nothing")
