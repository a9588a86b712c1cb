from __future__ import annotations

import math

from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue
from tg_crepe.inference.task import LabelTask

#: Where λ_L is this many times √(L/n) a graph has no clusters that labels could tell apart.
RATE_LIMIT = 1.6


def screening_rate(task: LabelTask, factor: float = 1.0, limit: float = RATE_LIMIT) -> float:
    r"""The rate :math:`x = a \lambda_L \sqrt{p}`: the graph's own eigenvalue, raised by the labels.

    :math:`\lambda_L` is the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean
    number of labels per class; a finding is two classes. The more the classes overlap, and the more labels there are,
    the sooner a diffusion must forget where it came from. On a graph without clusters, however, it would forget before
    it has met enough labels to outweigh the noise: there more labels make it no shorter, and its reach :math:`1/x` is

    .. math::
        \frac{1}{x} = \frac{1}{a \lambda_L} \left( \frac{1 - t}{\sqrt{p}} + t \right), \qquad
        t = \left[ \frac{a \lambda_L}{c} \sqrt{\frac{n}{L}} - 1 \right]_0^1, \qquad
        x \leq c\, \frac{\sqrt{\rho}}{1 - \sqrt{\rho}},

    where :math:`\rho` is the share of the nodes that are labelled: at the bound without the factor :math:`c`, LGC has
    :math:`\alpha = 1 - \sqrt{\rho}`. Few labels reach it where :math:`t > 0`.

    Args:
        task (LabelTask): The graph and the labels.
        factor (float, optional): :math:`a`. (default: :obj:`1.0`)
        limit (float, optional): :math:`c`; where :math:`\lambda_L` is this many times :math:`\sqrt{L/n}` a graph has no
            clusters that labels could tell apart. (default: :obj:`1.6`)
    """
    rivals = 2 if task.multi_label else task.num_classes
    nodes = task.graph.total_nodes
    eigenvalue = factor * cluster_eigenvalue(task.graph, rivals, task.sources)
    known = float(task.known_count.double().mean())
    blur = min(max(eigenvalue * math.sqrt(nodes / rivals) / limit - 1, 0.0), 1.0)
    rate = eigenvalue / ((1 - blur) / math.sqrt(known / rivals) + blur)
    root = math.sqrt(known / nodes)
    return min(rate, limit * root / (1 - root)) if root < 1 else rate
