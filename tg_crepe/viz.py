"""Figures, one function each: axes in, axes out. All that differs in colour (colour-blind-safe) differs in form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tg_crepe._optional import require
from tg_crepe.flow.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The palette of Okabe and Ito without black and grey, which here mean "labelled" and "no label".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
#: One more marker than there are colours, so that a colour that comes back has another shape.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
GREY = "#999999"

_ENERGY_COLUMNS = ("step", "sum_of_ratios", "energy")


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
    x, label = _array(x), _array(label).reshape(-1)
    if x.ndim != 2 or x.shape[1] != 2:
        raise ValueError(f"'x' must be of shape [num_nodes, 2], got {list(x.shape)}")
    _check_length("label", label, len(x))
    ringed = np.zeros(len(x), dtype=bool)
    if mask is not None:
        mask = _array(mask)
        if mask.dtype == bool:
            _check_length("mask", mask, len(x))
        ringed[mask] = True
    alpha = np.ones(len(x)) if certainty is None else 0.2 + 0.8 * np.clip(_array(certainty), 0, 1)
    _check_length("certainty", alpha, len(x))

    ax = _axes(ax)
    for value in np.unique(label):
        style = _class_style(int(value))
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


def plot_energy(trace: Trace | Mapping[str, Any], ax: Axes | None = None) -> Axes:
    r"""Draws the sum of ratios :math:`\sum_l J(u^l) / H(u^l)` and the energy :math:`\sum_l J(u^l)` against the step.

    Both are on one logarithmic axis, where equal relative decreases look equal; the axis is linear if a value is zero.

    Args:
        trace (Trace or mapping): The trace of a :class:`~tg_crepe.CrepePropagation` or
            :class:`~tg_crepe.RatioFlow` result, or its columns.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    missing = [name for name in _ENERGY_COLUMNS if name not in list(trace)]
    if missing:
        raise ValueError(f"'trace' must hold the columns {', '.join(map(repr, _ENERGY_COLUMNS))}, got {list(trace)}")
    step, ratio, energy = (_array(trace[name]) for name in _ENERGY_COLUMNS)
    energy = energy.reshape(len(step), -1).sum(axis=1)

    ax = _axes(ax)
    ax.plot(step, energy, color=PALETTE[0], marker="o", linestyle="-", label="energy $J$")
    ax.plot(step, ratio, color=PALETTE[3], marker="s", linestyle="--", label="ratio $J/H$")
    if min(energy.min(), ratio.min()) > 0:
        ticker = require("matplotlib.ticker", extra="plot")
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
    if len(step) <= 12:
        ax.set_xticks(step)
    ax.set_xlabel("step")
    ax.set_ylabel("sum over classes")
    ax.grid(alpha=0.3)
    _legend_above(ax)
    return ax


def plot_certainty(certainty: Any, correct: Any, ax: Axes | None = None) -> Axes:
    r"""Draws how certain the right and the wrong pseudo-labels are, each as shares of their own number.

    Shares, since few wrong labels beside many right ones would not be seen; the numbers are in the legend.

    Args:
        certainty (torch.Tensor or numpy.ndarray): The certainty in :math:`[0, 1]`, of shape :obj:`[num_nodes]`.
        correct (torch.Tensor or numpy.ndarray): Whether the pseudo-label is right, bool of shape :obj:`[num_nodes]`.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    certainty, correct = _array(certainty).reshape(-1), _array(correct).reshape(-1).astype(bool)
    _check_length("correct", correct, len(certainty))
    edges = np.linspace(0, 1, 11)
    width = 0.42 * (edges[1] - edges[0])

    ax = _axes(ax)
    groups = (("right", correct, PALETTE[0], "//", -width / 2), ("wrong", ~correct, PALETTE[1], "..", width / 2))
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
    _legend_above(ax)
    return ax


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure that pyplot does not know, so that it goes when nobody holds it."""
    if ax is not None:
        return ax
    figure = require("matplotlib.figure", extra="plot").Figure(figsize=(6, 4), layout="constrained")
    axes: Axes = figure.add_subplot()
    return axes


def _legend_above(ax: Axes) -> None:
    """One line over the axes, where it hides nothing."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def _class_style(label: int) -> dict[str, Any]:
    """The colour and the marker of a class; 56 classes differ."""
    if label < 0:
        return {"c": GREY, "marker": "."}
    return {"c": PALETTE[label % len(PALETTE)], "marker": MARKERS[label % len(MARKERS)]}


def _array(value: Any) -> np.ndarray:
    """A tensor of any device, or whatever numpy understands, as an array."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _check_length(name: str, value: np.ndarray, length: int) -> None:
    if value.shape != (length,):
        raise ValueError(f"'{name}' must be of shape [{length}], got {list(value.shape)}")
