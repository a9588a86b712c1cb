"""What the figures share: colours that the colour-blind tell apart, shapes that grey tells apart, axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tg_crepe._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The palette of Okabe and Ito without black and grey, which here mean "labelled" and "no label", and four dark colours
#: of Tol's: ten classes have a colour each.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#F0E442",
    "#882255",
    "#999933",
    "#332288",
    "#661100",
)
#: No divisor of the number of colours, so that a colour that comes back has another shape.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
GREY = "#999999"


def own_axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure that pyplot does not know, so that it goes when nobody holds it."""
    if ax is not None:
        return ax
    figure = require("matplotlib.figure", extra="plot").Figure(figsize=(6, 4), layout="constrained")
    axes: Axes = figure.add_subplot()
    return axes


def legend_above(ax: Axes) -> None:
    """One line over the axes, where it hides nothing."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def class_style(label: int) -> dict[str, Any]:
    """The colour and the marker of a class; 88 classes differ."""
    if label < 0:
        return {"c": GREY, "marker": "."}
    return {"c": PALETTE[label % len(PALETTE)], "marker": MARKERS[label % len(MARKERS)]}


def as_array(value: Any) -> np.ndarray:
    """A tensor of any device, or whatever numpy understands, as an array."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def check_length(name: str, value: np.ndarray, length: int) -> None:
    """Raise unless there is one value for every node."""
    if value.shape != (length,):
        raise ValueError(f"'{name}' must be of shape [{length}], got {list(value.shape)}")


def as_mask(mask: Any, length: int) -> np.ndarray:
    """The labelled nodes as bool of shape :obj:`[length]`, from a mask, from indices or from None (no node)."""
    chosen = np.zeros(length, dtype=bool)
    if mask is not None:
        mask = as_array(mask)
        if mask.dtype == bool:
            check_length("mask", mask, length)
        chosen[mask] = True
    return chosen
