from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tg_crepe.viz._style import MARKERS, PALETTE, as_array, legend_above, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tg_crepe.training.metrics import ReliabilityCurve


def plot_reliability(curves: Mapping[str, ReliabilityCurve], ax: Axes | None = None) -> Axes:
    r"""Draws how often predictions of a confidence are right; on the diagonal confidence can be taken at its word.

    A marker is the larger the more predictions it stands for. The legend has the expected calibration error
    :math:`\sum_b \frac{n_b}{n} |a_b - c_b|` of every curve.

    Args:
        curves (mapping): Curves of :func:`~tg_crepe.training.reliability_curve` by name, such as before and after.
        ax (matplotlib.axes.Axes, optional): Where to draw. (default: :obj:`None`, the axes of a new figure)
    """
    ax = own_axes(ax)
    ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1)
    for place, (name, curve) in enumerate(curves.items()):
        error = curve.expected_error
        color, marker = PALETTE[(0, 3, 2)[place % 3]], MARKERS[place % len(MARKERS)]
        confidence, accuracy, count = map(as_array, (curve.confidence, curve.accuracy, curve.count))
        ax.plot(confidence, accuracy, color=color, alpha=0.35, linewidth=1, linestyle=("-", "--", "-.")[place % 3])
        # A bin of a few nodes says little, and the eye should see that.
        share = count / max(count.sum(), 1)
        ax.scatter(confidence, accuracy, s=8 + 220 * share, color=color, marker=marker, alpha=0.85, clip_on=False)
        title = name if error is None else f"{name}, ECE {100 * error:.1f} %"
        ax.scatter([], [], s=40, color=color, marker=marker, label=title)  # the legend's own: the bins differ in size
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("confidence")
    ax.set_ylabel("share that is right")
    ax.grid(alpha=0.3)
    if curves:
        legend_above(ax)
    return ax
