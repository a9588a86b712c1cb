from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tg_crepe._optional import require
from tg_crepe.viz._style import as_array, as_mask, check_length
from tg_crepe.viz.points import plot_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More lines than these are a grey cloud and megabytes of a vector graphic.
_MOST_EDGES = 5000


def plot_graph(
    x: Any,
    edge_index: Any,
    label: Any,
    edge_weight: Any = None,
    mask: Any = None,
    certainty: Any = None,
    images: Any = None,
    image_node: Any = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Draws a graph as the paper does: nodes in the colour of their class, edges, and the images of a few nodes.

    Before propagation ``label`` is :obj:`-1` at all nodes but the labelled ones; the same call with the pseudo-labels
    is the view after it.

    .. code-block:: python

        from tg_crepe.viz import plot_graph

        before, after = figure.subplots(1, 2)
        plot_graph(x, edge_index, torch.where(mask, y, -1), edge_weight, mask, ax=before)
        plot_graph(x, edge_index, result.label, edge_weight, mask, result.certainty, ax=after)

    Args:
        x (torch.Tensor or numpy.ndarray): The positions, of shape :obj:`[num_nodes, 2]`.
        edge_index (torch.Tensor or numpy.ndarray): The edges, of shape :obj:`[2, num_edges]`; of more than 5,000 the
            heaviest are drawn.
        label (torch.Tensor or numpy.ndarray): The class of every node, of shape :obj:`[num_nodes]`; :obj:`-1` has none.
        edge_weight (torch.Tensor or numpy.ndarray, optional): Weights of shape :obj:`[num_edges]`: light edges are
            pale. (default: :obj:`None`, all alike)
        mask (torch.Tensor or numpy.ndarray, optional): Which nodes are labelled, as in :func:`plot_points`.
            (default: :obj:`None`, no node)
        certainty (torch.Tensor or numpy.ndarray, optional): The certainty of every node, as in :func:`plot_points`.
            (default: :obj:`None`)
        images (torch.Tensor or numpy.ndarray, optional): Bytes of shape :obj:`[num_images, channels, height, width]`.
            (default: :obj:`None`, no images)
        image_node (torch.Tensor or numpy.ndarray, optional): The nodes of the images, of shape :obj:`[num_images]`.
            (default: :obj:`None`)
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    x, edges = as_array(x), as_array(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"'edge_index' must be of shape [2, num_edges], got {list(edges.shape)}")
    weight = np.ones(edges.shape[1]) if edge_weight is None else as_array(edge_weight)
    check_length("edge_weight", weight, edges.shape[1])
    if (images is None) != (image_node is None):
        raise ValueError("'images' and 'image_node' must be given together, got one of them")
    ax = plot_points(x, label, mask, certainty, ax)
    _draw_edges(ax, x, edges, weight)
    if images is not None:
        nodes = as_array(image_node).reshape(-1)
        check_length("image_node", nodes, len(images))
        _draw_images(ax, x, as_array(images), nodes, as_mask(mask, len(x)))
    return ax


def _draw_edges(ax: Axes, x: np.ndarray, edges: np.ndarray, weight: np.ndarray) -> None:
    """Lines under the nodes, each edge once."""
    low, high = edges.min(axis=0), edges.max(axis=0)
    _, once = np.unique(low * len(x) + high, return_index=True)
    once = once[low[once] != high[once]]
    if len(once) > _MOST_EDGES:
        once = once[np.argsort(-weight[once], kind="stable")[:_MOST_EDGES]]
    if not len(once):
        return
    colors = np.full((len(once), 4), 0.4)
    colors[:, 3] = 0.1 + 0.5 * weight[once] / max(float(weight[once].max()), np.finfo(float).tiny)
    collections = require("matplotlib.collections", extra="plot")
    ax.add_collection(
        collections.LineCollection(x[edges[:, once].T], colors=colors, linewidths=0.6, zorder=0.5), autolim=False
    )


def _draw_images(ax: Axes, x: np.ndarray, images: np.ndarray, nodes: np.ndarray, ringed: np.ndarray) -> None:
    """Small pictures at their nodes, with a thick frame where the node is labelled."""
    box = require("matplotlib.offsetbox", extra="plot")
    for image, node in zip(images, nodes, strict=True):
        pixels = np.repeat(image, 3, axis=0) if image.shape[0] == 1 else image
        picture = box.OffsetImage(pixels.transpose(1, 2, 0), zoom=22 / max(image.shape[1:]))
        frame = {"edgecolor": "black", "linewidth": 2 if ringed[node] else 0.6}
        ax.add_artist(box.AnnotationBbox(picture, x[node], pad=0.05, bboxprops=frame))
