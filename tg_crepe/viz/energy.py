from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tg_crepe._optional import require
from tg_crepe.solvers.trace import Trace
from tg_crepe.viz._style import PALETTE, as_array, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ENERGY_COLUMNS = ("step", "sum_of_ratios", "energy")


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
    step, ratio, energy = (as_array(trace[name]) for name in _ENERGY_COLUMNS)
    energy = energy.reshape(len(step), -1).sum(axis=1)

    ax = own_axes(ax)
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
    legend_above(ax)
    return ax
