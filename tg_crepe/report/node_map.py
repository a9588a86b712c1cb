from __future__ import annotations

from typing import Any

import numpy as np

from tg_crepe._plane import principal_plane
from tg_crepe.report.content import RunContent
from tg_crepe.report.sprite import Sprite
from tg_crepe.runs import RunResult

#: Nodes on the map at most, and places along an axis.
_MOST, _GRID = 5000, 1000


def map_data(content: RunContent, sprite: Sprite | None) -> dict[str, Any]:
    r"""The map as plain lists: nodes, where they are in every layout and moment, and what they are.

    Args:
        content (RunContent): A run with pseudo-labels.
        sprite (Sprite, optional): The images of some nodes.
    """
    result = content.result
    assert result is not None
    flow = _flow_of(result)
    node = result.flow_node if flow is not None and result.flow_node is not None else _sample(content)
    labels = [content.shown[node].tolist()]
    moments = ["the end"]
    if flow is not None and result.flow_time is not None:
        order = np.argsort(result.flow_time, kind="stable")
        flow = flow[order]
        labels = [*(_label_of(u, content.multi_label).tolist() for u in flow[:-1]), labels[0]]
        moments = [f"{100 * share:.0f} % of the flow" for share in result.flow_time[order]]
    truth = None
    if content.has_truth and result.truth is not None:
        truth = [content.name(result.truth[i]) if content.judged[i] else None for i in node]
    return {
        "ids": [str(name) for name in result.ids[node]],
        "guess": [content.guess(i) for i in node],
        "truth": truth,
        "right": content.correct[node].astype(int).tolist() if truth else None,
        "labelled": result.labelled[node].astype(int).tolist(),
        "certainty": np.round(100 * np.clip(result.certainty[node], 0, 1)).astype(int).tolist(),
        "labels": labels,
        "moments": moments,
        "layouts": _layouts(result, node, flow),
        "thumb": [-1 if sprite is None else sprite.place.get(int(i), -1) for i in node],
        "columns": 0 if sprite is None else sprite.columns,
        "classes": content.names,
        "total": len(result.ids),
    }


def _flow_of(result: RunResult) -> np.ndarray | None:
    """The class functions at the moments that were kept, or None where they were not."""
    if result.flow_u is None or result.flow_node is None or result.flow_time is None:
        return None
    expected = (len(result.flow_time), len(result.flow_node), len(result.class_names))
    usable = result.flow_u.shape == expected and min(expected) > 0
    return np.nan_to_num(result.flow_u.astype(np.float32)) if usable else None


def _sample(content: RunContent) -> np.ndarray:
    """All nodes, or those with an image, the labelled ones and others evenly spread."""
    result = content.result
    assert result is not None
    count = len(result.ids)
    if count <= _MOST:
        return np.arange(count)
    chosen = np.zeros(count, dtype=bool)
    if content.thumbnails is not None:
        chosen[content.thumbnails[0][: _MOST // 2]] = True
    chosen[np.flatnonzero(result.labelled)[: _MOST // 4]] = True
    rest = np.flatnonzero(~chosen)
    chosen[rest[np.linspace(0, len(rest) - 1, _MOST - int(chosen.sum())).round().astype(int)]] = True
    return np.flatnonzero(chosen)


def _label_of(u: np.ndarray, multi_label: bool) -> np.ndarray:
    """The class whose function is largest; of findings only those above zero."""
    largest = u.argmax(axis=1)
    return np.where(u.max(axis=1) > 0, largest, -1) if multi_label else largest


def _layouts(result: RunResult, node: np.ndarray, flow: np.ndarray | None) -> list[dict[str, Any]]:
    """Where the nodes are: by their features (always the same), by class functions (at every moment)."""
    layouts = []
    if flow is not None:
        # One plane for all moments, so that what moves on the screen has moved in the flow.
        plane = principal_plane(flow.reshape(-1, flow.shape[2])).reshape(len(flow), -1, 2)
        layouts.append({"name": "class functions of the flow", "xy": _on_grid(plane)})
    if result.position is not None:
        layouts.append({"name": "features", "xy": _on_grid(result.position[node][None])})
    if not layouts:
        # Logarithms: most soft labels are close to a corner, where they would all lie on one spot.
        spread = np.log(np.clip(result.prob[node], 1e-4, 1))
        layouts.append({"name": "soft labels", "xy": _on_grid(principal_plane(spread)[None])})
    return layouts


def _on_grid(plane: np.ndarray) -> list[list[int]]:
    """Whole numbers x, y, x, y, … for every moment; the outermost 0.2 % are moved to the border."""
    low, high = np.quantile(plane.reshape(-1, 2), [0.002, 0.998], axis=0)
    scaled = (plane - low) / np.where(high > low, high - low, 1)
    scaled = np.where(high > low, np.clip(scaled, 0, 1), 0.5)
    return [moment.reshape(-1).tolist() for moment in np.round(scaled * (_GRID - 1)).astype(int)]
