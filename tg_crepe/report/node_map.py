from __future__ import annotations

from typing import Any

import numpy as np

from tg_crepe.report.content import RunContent
from tg_crepe.report.sprite import Sprite
from tg_crepe.runs import RunResult
from tg_crepe.runs.plane import principal_plane

#: Nodes on the map at most, and places along an axis.
_MOST, _GRID = 5000, 1000

#: How strongly a class function pulls a node: at 4 one of ten that stands alone brings it nine tenths of the way.
_PULL = 4.0


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
        moments = [f"{100 * share:.0f} % of the way" for share in result.flow_time[order]]
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
        "text": [content.snippets.get(int(i), "") for i in node] if content.snippets else None,
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
    """Where the nodes are: by their features (always the same), by class functions (at every moment).

    Features come first: placed by what was predicted, every result looks like tidy islands.
    """
    layouts = []
    if result.position is not None:
        layouts.append({"name": "features", "xy": _on_grid(result.position[node][None])})
    if flow is not None:
        within = principal_plane(flow[-1]) if result.position is None else result.position[node]
        layouts.append({"name": "predicted class", "xy": _on_grid(_around_circle(flow, within))})
    if not layouts:
        # Logarithms: most soft labels are close to a corner, where they would all lie on one spot.
        spread = np.log(np.clip(result.prob[node], 1e-4, 1))
        layouts.append({"name": "soft labels", "xy": _on_grid(principal_plane(spread)[None])})
    return layouts


def _around_circle(flow: np.ndarray, within: np.ndarray) -> np.ndarray:
    r"""Every class has its place on a circle, and a node is the nearer to it the more its class function stands out.

    .. math::
        \sum_l \mathrm{softmax}(4 \mathbf{u}_i / \|\mathbf{u}_i\|)_l \, \mathbf{c}_l + \mathbf{o}_i,

    where :math:`\mathbf{c}_l` is the place of a class. The quotient is free of the degree, a factor of
    :math:`\mathbf{u}_i`. Nodes of a class have nearly the same class functions and would lie on one spot, hence
    :math:`\mathbf{o}_i`: a small distance from the middle of its class, the same at all moments, so that what moves on
    the screen has moved in the flow.

    Args:
        flow (numpy.ndarray): Class functions of shape :obj:`[num_moments, num_nodes, num_classes]`.
        within (numpy.ndarray): Positions of shape :obj:`[num_nodes, 2]` that give the small distances.
    """
    size = np.linalg.norm(flow, axis=2, keepdims=True)
    weight = np.exp(_PULL * flow / np.where(size > 0, size, 1))
    weight /= weight.sum(axis=2, keepdims=True)
    count = flow.shape[2]
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    corner = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    nearest = flow[-1].argmax(axis=1)
    middle = np.stack([np.bincount(nearest, axis, count) for axis in within.T.astype(float)], axis=1)
    offset = within - (middle / np.maximum(np.bincount(nearest, minlength=count), 1)[:, None])[nearest]
    spread = 2 * np.sqrt((offset**2).mean()) or 1.0
    # Half of the way to the next class, or less: classes stay apart.
    return weight @ corner + 0.5 * np.sin(np.pi / max(count, 3)) * np.tanh(offset / spread)


def _on_grid(plane: np.ndarray) -> list[list[int]]:
    """Whole numbers x, y, x, y, … for every moment; the outermost 0.2 % are moved to the border."""
    low, high = np.quantile(plane.reshape(-1, 2), [0.002, 0.998], axis=0)
    scaled = (plane - low) / np.where(high > low, high - low, 1)
    scaled = np.where(high > low, np.clip(scaled, 0, 1), 0.5)
    return [moment.reshape(-1).tolist() for moment in np.round(scaled * (_GRID - 1)).astype(int)]
