from __future__ import annotations

import math

from tg_crepe.graph.cluster_eigenvalue import clock_rate
from tg_crepe.inference.task import LabelTask

#: Where :math:`\lambda_L` is this many times :math:`\sqrt{L/n}` a graph has no clusters that labels could tell apart;
#: and the rate is at most this many times the one that the share of labels alone would give.
_MOST = 1.6


def screening_rate(task: LabelTask) -> float:
    r"""The rate :math:`x = \lambda_L \sqrt{p}`: the graph's own eigenvalue, raised by the labels.

    :math:`\lambda_L` is the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean
    number of labels a class; a finding is two classes. The more the classes overlap, and the more labels there are, the
    sooner a diffusion must forget where it came from. On a graph without clusters, however, it would forget before it
    has met enough labels to outweigh the noise: there more labels make it no shorter, and its reach :math:`1/x` is

    .. math::
        \frac{1}{x} = \frac{1}{\lambda_L} \left( \frac{1 - t}{\sqrt{p}} + t \right), \qquad
        t = \left[ \frac{\lambda_L}{1.6} \sqrt{\frac{n}{L}} - 1 \right]_0^1, \qquad
        x \leq 1.6\, \frac{\sqrt{\rho}}{1 - \sqrt{\rho}},

    where :math:`\rho` is the share of the nodes that are labelled: at the bound without the factor, LGC has
    :math:`\alpha = 1 - \sqrt{\rho}`. Few labels reach it where :math:`t > 0`.
    """
    rivals = 2 if task.multi_label else task.num_classes
    nodes = task.graph.total_nodes
    eigenvalue = clock_rate(task.graph, rivals, task.sources)
    known = float(task.known_count.double().mean())
    blur = min(max(eigenvalue * math.sqrt(nodes / rivals) / _MOST - 1, 0.0), 1.0)
    rate = eigenvalue / ((1 - blur) / math.sqrt(known / rivals) + blur)
    root = math.sqrt(known / nodes)
    return min(rate, _MOST * root / (1 - root)) if root < 1 else rate
