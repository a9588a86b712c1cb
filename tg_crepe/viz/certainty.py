from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tg_crepe.viz._style import PALETTE, as_array, check_length, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_certainty(certainty: Any, correct: Any = None, ax: Axes | None = None) -> Axes:
    r"""Draws how certain the right and the wrong pseudo-labels are, each as shares of their own number.

    Shares, since few wrong labels beside many right ones would not be seen; the numbers are in the legend.

    Args:
        certainty (torch.Tensor or numpy.ndarray): The certainty in :math:`[0, 1]`, of shape :obj:`[num_nodes]`.
        correct (torch.Tensor or numpy.ndarray, optional): Whether the pseudo-label is right, bool of shape
            :obj:`[num_nodes]`. (default: :obj:`None`, nobody knows: one kind)
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    certainty = as_array(certainty).reshape(-1)
    edges = np.linspace(0, 1, 11)
    if correct is None:
        width = 0.84 * (edges[1] - edges[0])
        groups = [("pseudo-labels", np.ones(len(certainty), dtype=bool), PALETTE[0], "//", 0.0)]
    else:
        width = 0.42 * (edges[1] - edges[0])
        correct = as_array(correct).reshape(-1).astype(bool)
        check_length("correct", correct, len(certainty))
        groups = [("right", correct, PALETTE[0], "//", -width / 2), ("wrong", ~correct, PALETTE[1], "..", width / 2)]

    ax = own_axes(ax)
    for name, members, color, hatch, shift in groups:
        count, _ = np.histogram(np.clip(certainty[members], 0, 1), edges)
        share = 100 * count / max(int(members.sum()), 1)
        position = (edges[:-1] + edges[1:]) / 2 + shift
        legend = f"{name} ({int(members.sum()):,})"
        ax.bar(position, share, width, color=color, hatch=hatch, edgecolor="black", linewidth=0.6, label=legend)
    ax.set_xlim(0, 1)
    ax.set_xticks(edges[::2])
    ax.set_xlabel("certainty")
    ax.set_ylabel("share of its kind (%)")
    legend_above(ax)
    return ax
