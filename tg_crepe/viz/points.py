from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tg_crepe.viz._style import as_array, as_mask, check_length, class_style, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_points(x: Any, label: Any, mask: Any = None, certainty: Any = None, ax: Axes | None = None) -> Axes:
    r"""Draws nodes in the plane, a colour and a marker for every class; nodes without a label are grey.

    Before propagation ``label`` is :obj:`-1` at all nodes but the labelled ones.

    .. code-block:: python

        from tg_crepe.viz import plot_points

        ax = plot_points(x, result.label, mask, result.certainty)
        ax.figure.savefig("pseudo_labels.png")

    Args:
        x (torch.Tensor or numpy.ndarray): The positions, of shape :obj:`[num_nodes, 2]`.
        label (torch.Tensor or numpy.ndarray): The class of every node, of shape :obj:`[num_nodes]`; :obj:`-1` has none.
        mask (torch.Tensor or numpy.ndarray, optional): Which nodes are labelled, drawn large with a black ring: bool of
            shape :obj:`[num_nodes]`, or indices. (default: :obj:`None`, no node)
        certainty (torch.Tensor or numpy.ndarray, optional): The certainty of every node in :math:`[0, 1]`, of shape
            :obj:`[num_nodes]`: uncertain nodes are pale. (default: :obj:`None`, all are opaque)
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    x, label = as_array(x), as_array(label).reshape(-1)
    if x.ndim != 2 or x.shape[1] != 2:
        raise ValueError(f"'x' must be of shape [num_nodes, 2], got {list(x.shape)}")
    check_length("label", label, len(x))
    ringed = as_mask(mask, len(x))
    alpha = np.ones(len(x)) if certainty is None else 0.2 + 0.8 * np.clip(as_array(certainty), 0, 1)
    check_length("certainty", alpha, len(x))

    ax = own_axes(ax)
    for value in np.unique(label):
        style = class_style(int(value))
        name = "no label" if value < 0 else f"class {value}"
        plain, large = (label == value) & ~ringed, (label == value) & ringed
        if plain.any():  # matplotlib takes no empty array of alphas
            ax.scatter(x[plain, 0], x[plain, 1], s=14, alpha=alpha[plain], linewidths=0, **style)
        ax.scatter(x[large, 0], x[large, 1], s=150, edgecolors="black", linewidths=2, zorder=3, **style)
        ax.scatter([], [], s=30, label=name, **style)  # the legend's own entry: opaque, and there for every class
    if ringed.any():
        ax.scatter([], [], s=90, c="white", edgecolors="black", linewidths=2, label="labelled")
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")  # beside the nodes, not on them
    return ax
