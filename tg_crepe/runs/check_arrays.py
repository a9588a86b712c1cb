"""What the files of a run must hold: a run may be damaged, or made by hand, and every reader trusts these checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file

#: What a kind of array may be made of, by NumPy's letters.
_NUMBERS, _WHOLE, _TRUTH, _TEXT = "f", "iu", "b", "U"
_WORDS = {"f": "finite numbers", "i": "whole numbers", "b": "true or false", "U": "text"}


def check_info(path: Path, info: Mapping[str, Any]) -> None:
    """Raise unless the fields of ``run.json`` are of their kinds."""
    for name, kind, word in (("command", str, "text"), ("status", str, "text"), ("settings", dict, "an object")):
        if not isinstance(info.get(name), kind):
            raise damaged_file(path, f"'{name}' must be {word}, got {_shown(info.get(name))}")
    expected = info.get("expected_error")
    if expected is not None:
        parts = [expected.get(part) for part in ("value", "low", "high")] if isinstance(expected, dict) else [None]
        if not all(isinstance(part, int | float) and 0 <= part <= 1 for part in parts):
            raise damaged_file(
                path, f"'expected_error' must have value, low and high between 0 and 1, got {_shown(expected)}"
            )


def check_result(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless the arrays of ``result.npz`` fit each other and are what their names say."""
    for name in ("ids", "class_names"):
        if arrays[name].ndim != 1:
            raise damaged_file(path, f"'{name}' must be a list, got shape {list(arrays[name].shape)}")
    rows, classes = len(arrays["ids"]), len(arrays["class_names"])
    if classes == 0:
        raise damaged_file(path, "'class_names' must name a class at least, got none")
    check_array(path, arrays, "ids", _TEXT + _WHOLE, (rows,))
    check_array(path, arrays, "class_names", _TEXT, (classes,))
    label = arrays["label"].shape
    if label not in ((rows,), (rows, classes)):
        raise damaged_file(path, f"'label' must have {rows} rows, got shape {list(label)}")
    highest = classes - 1 if len(label) == 1 else 1
    check_array(path, arrays, "prob", _NUMBERS, (rows, classes), -1e-3, 1 + 1e-3)
    check_array(path, arrays, "certainty", _NUMBERS, (rows,), -1e-3, 1 + 1e-3)
    check_array(path, arrays, "label", _WHOLE, label, -1, highest)
    check_array(path, arrays, "reached", _TRUTH, (rows,))
    check_array(path, arrays, "labelled", _TRUTH, (rows,))
    if "position" in arrays:
        check_array(path, arrays, "position", _NUMBERS, (rows, 2))
    if "truth" in arrays:
        check_array(path, arrays, "truth", _WHOLE, label, -1, highest)
    flow = [name for name in ("flow_node", "flow_time", "flow_u") if name in arrays]
    if flow and len(flow) < 3:
        raise damaged_file(path, f"it must hold flow_node, flow_time and flow_u or none of them, got {', '.join(flow)}")
    if flow:
        kept, moments = arrays["flow_node"].size, arrays["flow_time"].size
        check_array(path, arrays, "flow_node", _WHOLE, (kept,), 0, rows - 1)
        check_array(path, arrays, "flow_time", _NUMBERS, (moments,))
        check_array(path, arrays, "flow_u", _NUMBERS, (moments, kept, classes))


def check_graph(path: Path, arrays: Mapping[str, np.ndarray]) -> int:
    """The number of nodes; raise unless the arrays of ``graph.npz`` are a graph."""
    check_array(path, arrays, "num_nodes", _WHOLE, (), 0)
    count, edges = int(arrays["num_nodes"]), arrays["edge_weight"].size
    check_array(path, arrays, "edge_index", _WHOLE, (2, edges), 0, count - 1)
    check_array(path, arrays, "edge_weight", _NUMBERS, (edges,), 0)
    return count


def check_kept(path: Path, arrays: Mapping[str, np.ndarray], what: str) -> None:
    """Raise unless images or texts are those of some nodes."""
    node, value = arrays["node"], arrays[what]
    check_array(path, arrays, "node", _WHOLE, (node.size,), 0)
    if what == "text":
        check_array(path, arrays, "text", _TEXT, (node.size,))
    elif value.dtype != np.uint8 or value.ndim != 4 or len(value) != node.size or value.shape[1] not in (1, 3):
        raise damaged_file(
            path, f"'images' must be bytes [{node.size}, 1 or 3, height, width], got {value.dtype} {list(value.shape)}"
        )


def check_array(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    name: str,
    kinds: str,
    shape: tuple[int, ...],
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Raise unless an array has a shape, holds what it must, and lies within limits."""
    array = arrays[name]
    if array.shape != shape:
        raise damaged_file(path, f"'{name}' must be of shape {list(shape)}, got {list(array.shape)}")
    if array.dtype.kind not in kinds:
        raise damaged_file(path, f"'{name}' must hold {_WORDS[kinds[0]]}, got {array.dtype}")
    if array.size == 0 or array.dtype.kind in "Ub":
        return
    least, most = array.min(), array.max()
    if not (np.isfinite(least) and np.isfinite(most)):
        raise damaged_file(path, f"'{name}' must hold finite numbers, got NaN or infinity")
    if (low is not None and least < low) or (high is not None and most > high):
        limits = f">= {low:g}" if high is None else f"in [{low:g}, {high:g}]"
        raise damaged_file(path, f"'{name}' must be {limits}, got {least} to {most}")


def _shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
