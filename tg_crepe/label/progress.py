from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tg_crepe.inference.task import ExpectedError
from tg_crepe.label.solve import Solved
from tg_crepe.label.store import Answer, ProgressPoint


def expected_error(solved: Solved, tests: Sequence[Answer]) -> ExpectedError | None:
    """To be replaced."""
    return solved.expected


def ten_more(points: Sequence[ProgressPoint], more: int = 10) -> float | None:
    r"""The error to expect after some more answers, from the curve so far; None where there is none to go on from.

    .. math::
        e(n + m) = e(n) \left( \frac{n + m}{n} \right)^{-b},

    where :math:`b \in [0, 1]` is the slope of :math:`\log e` over :math:`\log n` in the last half of the labels.
    """
    known = [(point.labels, point.value) for point in points if point.value is not None and point.labels > 0]
    if len(known) < 3:
        return None
    last = known[-1][0]
    recent = np.log([(n, max(e, 1e-4)) for n, e in known if n >= last / 2])
    spread = recent[:, 0] - recent[:, 0].mean()
    if len(recent) < 3 or not spread.any():
        return None
    slope = float(np.clip(-(spread @ recent[:, 1]) / (spread @ spread), 0.0, 1.0))
    return float(known[-1][1] * ((last + more) / last) ** -slope)
