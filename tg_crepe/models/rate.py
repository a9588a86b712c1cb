from __future__ import annotations

import math

from tg_crepe.graph.clock import clock_rate
from tg_crepe.models.sources import sources
from tg_crepe.models.task import LabelTask

#: The rate is at most this many times the one that the share of labels alone would give.
_MOST = 1.6


def screening_rate(task: LabelTask) -> float:
    r"""The rate :math:`x = \lambda_L \sqrt{p}`: the graph's own eigenvalue, raised by the labels.

    :math:`\lambda_L` is the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean
    number of labels a class; a finding is two classes. The more the classes overlap, and the more labels there are, the
    sooner a diffusion must forget where it came from. On a graph without clusters it would forget before it has met
    enough labels to outweigh the noise, so that

    .. math::
        x \leq 1.6\, \frac{\sqrt{\rho}}{1 - \sqrt{\rho}},

    where :math:`\rho` is the share of the nodes that are labelled: at the bound without the factor, LGC has
    :math:`\alpha = 1 - \sqrt{\rho}`. Few labels reach it where :math:`\lambda_L > 1.6 \sqrt{L/n}`.
    """
    rivals = 2 if task.multi_label else task.num_classes
    eigenvalue = clock_rate(task.graph, rivals, sources(task))
    known = float(task.known_count.double().mean())
    root = math.sqrt(known / task.graph.total_nodes)
    rate = eigenvalue * math.sqrt(known / rivals)
    return min(rate, _MOST * root / (1 - root)) if root < 1 else rate
