from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tg_crepe.viz._style import PALETTE, as_array, check_length, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Classes whose names and numbers are legible.
_LEGIBLE = 30


def plot_confusion(truth: Any, label: Any, class_names: Sequence[str], ax: Axes | None = None) -> Axes:
    r"""Draws which classes are taken for which: shares of every true class, and the numbers.

    Args:
        truth (torch.Tensor or numpy.ndarray): The true class, of shape :obj:`[num_nodes]`; negative is left out.
        label (torch.Tensor or numpy.ndarray): The pseudo-label, of shape :obj:`[num_nodes]`; negative is left out.
        class_names (list): The name of every class.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    truth, label = as_array(truth).reshape(-1), as_array(label).reshape(-1)
    check_length("label", label, len(truth))
    size = len(class_names)
    known = (truth >= 0) & (label >= 0)
    count = np.bincount(truth[known] * size + label[known], minlength=size * size).reshape(size, size)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)

    ax = own_axes(ax)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    ax.set_xlabel("pseudo-label")
    ax.set_ylabel("true class")
    if size > _LEGIBLE:
        return ax
    _name_ticks(ax.set_xticks, class_names)
    ax.set_yticks(range(size), [_plain(name) for name in class_names])
    for row, column in zip(*np.nonzero(count), strict=True):
        color = "#fefefe" if share[row, column] > 0.5 else "#101010"
        ax.text(column, row, f"{count[row, column]}", ha="center", va="center", fontsize="x-small", color=color)
    return ax


def plot_class_balance(counts: Mapping[str, Any], class_names: Sequence[str], ax: Axes | None = None) -> Axes:
    r"""Draws how many nodes every class has, as shares of each kind, such as given labels beside pseudo-labels.

    Args:
        counts (mapping): Numbers of nodes per class, each of shape :obj:`[num_classes]`, by the name of their kind.
        class_names (list): The name of every class.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    size = len(class_names)
    ax = own_axes(ax)
    width = 0.84 / max(len(counts), 1)
    for place, (name, given) in enumerate(counts.items()):
        values = as_array(given).reshape(-1)
        if values.shape != (size,):
            raise ValueError(f"'counts[{name!r}]' must be of shape [{size}], got {list(values.shape)}")
        ax.bar(
            np.arange(size) + (place - (len(counts) - 1) / 2) * width,
            100 * values / max(float(values.sum()), 1),
            width,
            color=PALETTE[(0, 1, 2)[place % 3]],
            hatch=("//", "..", "xx")[place % 3],
            edgecolor="black",
            linewidth=0.4,
            label=f"{name} ({int(values.sum()):,})",
        )
    if size <= _LEGIBLE:
        _name_ticks(ax.set_xticks, class_names)
    ax.set_xlabel("class")
    ax.set_ylabel("share of its kind (%)")
    legend_above(ax)
    return ax


def _name_ticks(set_ticks: Any, class_names: Sequence[str]) -> None:
    """The names of the classes along the lower axis, upright where they would run into each other."""
    crowded = sum(len(str(name)) for name in class_names) > 40
    set_ticks(range(len(class_names)), [_plain(name) for name in class_names], rotation=90 if crowded else 0)


def _plain(name: str) -> str:
    """A name as it stands: matplotlib reads a pair of dollar signs as mathematics; long ones are cut."""
    short = name if len(name) <= 18 else name[:17] + "…"
    return short.replace("$", r"\$")
