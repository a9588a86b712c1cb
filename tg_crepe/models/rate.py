from __future__ import annotations

import math

from tg_crepe.graph.clock import clock_rate
from tg_crepe.models.sources import sources
from tg_crepe.models.task import LabelTask


def screening_rate(task: LabelTask) -> float:
    r"""The rate :math:`x = \lambda_L \sqrt{p}`: the graph's own eigenvalue, raised by the labels.

    :math:`\lambda_L` is the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean
    number of labels a class; a finding is two classes. The more the classes overlap, and the more labels there are, the
    sooner a diffusion must forget where it came from.
    """
    rivals = 2 if task.multi_label else task.num_classes
    eigenvalue = clock_rate(task.graph, rivals, sources(task))
    labels = task.known_count.double().mean() / rivals
    return eigenvalue * math.sqrt(float(labels))
