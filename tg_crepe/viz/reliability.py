from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tg_crepe.viz._style import MARKERS, PALETTE, as_array, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tg_crepe.training.metrics import ReliabilityCurve


def plot_reliability(curves: Mapping[str, ReliabilityCurve], ax: Axes | None = None) -> Axes:
    r"""Draws how often predictions of a confidence are right; on the diagonal confidence can be taken at its word.

    The legend has the expected calibration error :math:`\sum_b \frac{n_b}{n} |a_b - c_b|` of every curve.

    Args:
        curves (mapping): Curves of :func:`~tg_crepe.training.reliability_curve` by name, such as before and after.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    ax = own_axes(ax)
    ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1)
    for place, (name, curve) in enumerate(curves.items()):
        error = curve.expected_error
        ax.plot(
            as_array(curve.confidence),
            as_array(curve.accuracy),
            color=PALETTE[(0, 3, 2)[place % 3]],
            marker=MARKERS[place % len(MARKERS)],
            linestyle=("-", "--", "-.")[place % 3],
            label=name if error is None else f"{name}, ECE {100 * error:.1f} %",
        )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("confidence")
    ax.set_ylabel("share that is right")
    ax.grid(alpha=0.3)
    if curves:
        legend_above(ax)
    return ax
