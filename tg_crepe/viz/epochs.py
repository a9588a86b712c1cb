from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tg_crepe._optional import require
from tg_crepe.viz._style import MARKERS, PALETTE, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The columns that are drawn, and their names in the legend.
_ERRORS = {"error": "network, test images", "pseudo_error": "pseudo-labels"}


def plot_epochs(metrics: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    r"""Draws the error of the network and that of the energy's pseudo-labels against the epoch.

    Args:
        metrics (list): A row per epoch with the columns :obj:`"epoch"`, :obj:`"error"` and :obj:`"pseudo_error"`, as
            :meth:`~tg_crepe.runs.RunFolder.read_metrics` returns them; None was not measured.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    shown = {name: [row for row in metrics if row.get(name) is not None] for name in _ERRORS}
    if not any(shown.values()):
        raise ValueError(f"'metrics' must hold {' or '.join(map(repr, _ERRORS))} in some row, got none")
    ax = own_axes(ax)
    for place, (name, rows) in enumerate(shown.items()):
        if rows:
            ax.plot(
                [row["epoch"] for row in rows],
                [100 * row[name] for row in rows],
                color=PALETTE[(0, 3)[place]],
                marker=MARKERS[place] if len(rows) <= 40 else None,
                linestyle=("-", "--")[place],
                label=_ERRORS[name],
            )
    ax.xaxis.set_major_locator(require("matplotlib.ticker", extra="plot").MaxNLocator(integer=True))
    ax.set_ylim(bottom=0)
    ax.set_xlabel("epoch")
    ax.set_ylabel("error (%)")
    ax.grid(alpha=0.3)
    legend_above(ax)
    return ax
