from __future__ import annotations

import math

import torch
from torch import Tensor

from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue
from tg_crepe.inference.held_out import HeldOut
from tg_crepe.inference.task import LabelTask

#: The largest rate of a diffusion: it goes at least about two steps far, or it meets too few labels.
LARGEST_RATE = 0.4

#: The rates that the labels may choose from, in units of the formula's, and how likely each is before a label is left
#: out: half as likely for every factor of about three. The first is the formula's own.
RATE_FACTORS = (1.0, 3.0, 10.0, 30.0)
_PRIOR = (1.0, 0.5, 0.25, 0.125)


def screening_rate(task: LabelTask, factor: float = 1.0) -> float:
    r"""The rate :math:`x = a \lambda_L \sqrt{p}` that the graph asks for: its eigenvalue, raised by the labels.

    :math:`\lambda_L` is the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` as far as the labels
    excite it (:func:`~tg_crepe.graph.cluster_eigenvalue.cluster_eigenvalue`) and :math:`p` the mean number of labels
    per class; a finding is two classes. The more the classes overlap, and the more labels there are, the sooner a
    diffusion must forget where it came from.

    Args:
        task (LabelTask): The graph and the labels.
        factor (float, optional): :math:`a`. (default: :obj:`1.0`)
    """
    rivals = 2 if task.multi_label else task.num_classes
    eigenvalue = factor * cluster_eigenvalue(task.graph, rivals, task.sources)
    return eigenvalue * math.sqrt(float(task.known_count.double().mean()) / rivals)


def bounded_rate(rate: float, largest: float = LARGEST_RATE) -> float:
    r"""The rate :math:`1 / (1/x + 1/c)` of a diffusion: on a graph without clusters one at :math:`x` would forget
    before it has met enough labels to outweigh the noise."""
    return 1 / (1 / rate + 1 / largest)


def weigh_rates(held: HeldOut) -> Tensor:
    r"""How likely each of the rates ``RATE_FACTORS`` is, given the labels that were left out.

    .. math::
        \log w_k = \log w_k^0 + \mathrm{sgn}(\Delta_k) \frac{\Delta_k^2}{2 (D_k + 1)} + \mathrm{const},

    where of the :math:`D_k` labels on which rate :math:`k` and the formula's disagree, rate :math:`k` finds
    :math:`\Delta_k` more: the likelihood ratio of a sign test. Few labels leave the prior :math:`w^0` as it is.

    Returns:
        torch.Tensor: Weights that sum to one, in double precision, of shape :obj:`[num_rates]`.
    """
    hits = held.hits().long()
    change = hits - hits[0]
    more, apart = change.sum(dim=1).double(), change.abs().sum(dim=1).double()
    return torch.softmax(_prior().to(more).log() + more * more.abs() / (2 * (apart + 1)), dim=0)


def raised_by(weight: Tensor) -> float:
    r"""The factor :math:`\exp \sum_k [w_k - w_k^0]_+ \log f_k` of the rates :math:`f`: what the labels that were left
    out add to the prior raises the rate, and without them it stays."""
    added = (weight.cpu() - _prior()).clamp(min=0)
    return math.exp(float(added @ torch.tensor(RATE_FACTORS, dtype=torch.float64).log()))


def _prior() -> Tensor:
    prior = torch.tensor(_PRIOR, dtype=torch.float64)
    return prior / prior.sum()
