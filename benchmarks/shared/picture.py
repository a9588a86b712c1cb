"""How the pictures of the reports are drawn and written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_picture(figure: Figure, path: Path, dpi: int = 120, mark: str = "") -> None:
    """Writes a PNG under a temporary name and renames; it keeps a mark of what it was made of as its description."""
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", dpi=dpi, metadata={"Description": mark} if mark else None)
    temporary.replace(path)


def draw_ratios(
    ratio: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, path: Path, ruled: Sequence[int] = ()
) -> None:
    """A heat map of ratios with their numbers, on a logarithmic scale: white is 1, red above, blue below, grey is none.

    Args:
        ratio (numpy.ndarray): The ratios, NaN where there is none, of shape :obj:`[len(rows), len(columns)]`.
        rows (list): What the rows are called.
        columns (list): What the columns are called.
        title (str): What stands above it.
        path (Path): Where the PNG is written.
        ruled (list, optional): Rows that have a line below them. (default: none)
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    # The same factor either way, so that white is 1; a few collapses must not wash out all else.
    limit = float(np.clip(np.exp(np.nanmax(np.abs(np.log(ratio)))), 1.25, 3))
    figure = Figure(figsize=(4 + 0.8 * len(columns), 2.8 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("#dddddd")
    image = axes.imshow(ratio, norm=LogNorm(1 / limit, limit), cmap="RdBu_r", aspect="auto")
    for (i, j), value in np.ndenumerate(ratio):
        if not np.isnan(value):
            colour = "white" if abs(math.log(value)) > 0.55 * math.log(limit) else "black"
            text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=9, color=colour)
    for i in ruled:
        axes.axhline(i + 0.5, color="black", linewidth=1)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.suptitle(title, fontsize=11)
    bar = figure.colorbar(image, location="bottom", extend="both", shrink=0.7, aspect=40, pad=0.02)
    ticks = [tick for tick in (1 / 3, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3) if 0.999 / limit <= tick <= 1.001 * limit]
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" if tick >= 0.5 else "0.33" for tick in ticks])
    bar.ax.minorticks_off()
    write_picture(figure, path)


def draw_places(ratios: Mapping[tuple[str, str], float], title: str, path: Path, order: Sequence[str] = ()) -> None:
    """:func:`draw_ratios` of cells: a row per first name as they come, a column per second one, in some order."""
    rows = list(dict.fromkeys(place[0] for place in ratios))
    columns = list(dict.fromkeys(place[1] for place in ratios))
    columns.sort(key=lambda name: order.index(name) if name in order else len(order))
    ratio = np.full((len(rows), len(columns)), np.nan)
    for (row, column), value in ratios.items():
        ratio[rows.index(row), columns.index(column)] = value
    draw_ratios(ratio, rows, columns, title, path)
