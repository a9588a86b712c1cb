from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import plain_sum, safe_divide
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.typing import OptTensor

#: Names of the rules that turn scores into probabilities.
SOFT_LABELS = ("calibrated", "relative")

#: The range of inverse temperatures that is searched, in units of the score's own spread, and how near the logarithm
#: of what is wanted must come.
_LOG_RANGE, _PRECISION = (math.log(1e-2), math.log(1e3)), 1e-12

#: The search goes from one to where it must in steps of this.
_DECADE = math.log(10)

#: The least weight of a node that the plain diffusion does not support: its most probable class stays what it is.
_LEAST_SUPPORT = 0.01


def relative_weights(u: Tensor, multi_label: bool) -> Tensor:
    r"""The paper's soft labels: the relative weights of the non-negative entries of a row.

    .. math::
        p^l = \frac{u^l}{\sum_{l' : u^{l'} \geq 0} u^{l'}} \text{ where } u^l \geq 0, \qquad
        p^l = 1/L \text{ where all are } 0.

    With two classes and coupling every row is one-hot. Findings of multi-label data are two classes each.

    Args:
        u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`.
        multi_label (bool): Whether the columns are findings on their own.
    """
    if multi_label:
        return (u.sign() + 1) / 2
    positive = u.clamp(min=0)
    total = positive.sum(dim=1, keepdim=True)
    return safe_divide(positive, total, 1 / u.size(1))


def calibrate(task: LabelTask, solution: Solution) -> Tensor:
    r"""Soft labels that are as sure as labels which were left out say they may be.

    .. math::
        \mathbf{p}_i = \mathrm{softmax}(\sqrt{q_i}\, \mathbf{s}_i / \tau), \qquad
        \frac{1}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \max_l p_i^l = 1 - \hat e,

    where :math:`\mathbf{s}` are the scores, :math:`\mathcal{U}` the unlabelled nodes, :math:`\hat e` the error that is
    expected (:func:`~tg_crepe.inference.expected_error.expect_error`) and :math:`q_i` the soft label that a plain
    diffusion gives to the class of :math:`i`, at least 0.01: a node whose class it does not share is less sure. The
    temperature :math:`\tau` makes the mean confidence what it should be. A model whose scores are logarithms of
    probabilities already (CREPE) keeps them: :math:`\mathbf{p}_i = \mathrm{softmax}(\mathbf{s}_i)`.

    Findings are judged by their neighbours instead:

    .. math::
        p_i^l = \sigma(s_i^l / \tau), \qquad
        \tau = \arg\min_\tau -\sum_{(i, l)\ \text{known}} \log
        \sigma(\pm \bar s_i^l / \tau), \qquad
        \bar{\mathbf{s}}_i = \frac{\sum_{j \notin \mathcal{L}} w_{ij} \mathbf{s}_j}{\sum_{j \notin \mathcal{L}} w_{ij}}.

    A labelled node is judged by its *unlabelled* neighbours, since its own score is pinned. The targets are softened as
    Platt (1999) does, :math:`(m + 1) / (m + 2)` for :math:`m` judged labels, so that a handful of them cannot claim
    certainty.

    Args:
        task (LabelTask): The graph and the labels.
        solution (Solution): The scores; of exclusive classes with the judgement of labels that were left out.

    Returns:
        torch.Tensor: Probabilities, of shape :obj:`[num_nodes, num_classes]`.
    """
    communicator, judgement = task.graph.communicator, solution.judgement
    score = solution.score.double()
    if judgement is not None and judgement.support is None:
        return torch.softmax(score, dim=1)
    centred = score if task.multi_label else score - score.mean(dim=1, keepdim=True)
    spread = (plain_sum(centred.square(), communicator) / (task.graph.total_nodes * score.size(1))).sqrt()
    if not float(spread) > 0:
        spread = torch.ones_like(spread)
    score = centred / spread
    if judgement is not None and judgement.support is not None:
        support = judgement.support.double().gather(1, score.argmax(dim=1, keepdim=True))
        score *= support.clamp(min=_LEAST_SUPPORT).sqrt_()
        confidence = 1 - judgement.expected.value
        return torch.softmax(match_confidence(score[~task.labelled], confidence, communicator) * score, dim=1)
    around, judged = unlabelled_mean(task.graph, score, task.labelled)
    known = (task.sign != 0) & judged.unsqueeze(-1)
    any_known = bool(communicator.max(known.any().long()))
    sharpness = fit_sharpness(around, task.sign, known, task.multi_label, communicator) if any_known else 1.0
    return torch.sigmoid(sharpness * score) if task.multi_label else torch.softmax(sharpness * score, dim=1)


def unlabelled_mean(graph: CanonicalGraph, score: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean of ``score`` over the unlabelled neighbours of labelled nodes, and where there is one.

    Args:
        graph (CanonicalGraph): The graph.
        score (torch.Tensor): In double precision, of shape :obj:`[num_nodes, num_classes]`.
        labelled (torch.Tensor): Bool, of shape :obj:`[num_nodes]`.
    """
    score, labelled = graph.communicator.halo(score), graph.communicator.halo(labelled)
    total = torch.zeros_like(score)
    weight = score.new_zeros(graph.num_local)
    between = labelled[graph.edge_index[0]] ^ labelled[graph.edge_index[1]]
    first, second = graph.edge_index[:, between]
    here, there = torch.where(labelled[first], first, second), torch.where(labelled[first], second, first)
    w = graph.edge_weight[between].double()
    total.index_add_(0, here, w.unsqueeze(-1) * score[there])
    weight.index_add_(0, here, w)
    total, weight = total[: graph.num_nodes], weight[: graph.num_nodes]
    found = weight > 0
    return total / torch.where(found, weight, 1.0).unsqueeze(-1), found


def match_confidence(score: Tensor, confidence: float, communicator: Communicator = ALONE) -> float:
    """The inverse temperature at which the mean largest probability is ``confidence``; it grows with it."""
    below = score - score.amax(dim=1, keepdim=True)
    count = float(communicator.sum(torch.tensor(score.size(0), dtype=torch.float64, device=score.device)))

    def excess(log_sharpness: float) -> float:
        top = (below * math.exp(log_sharpness)).exp_().sum(dim=1).reciprocal_()
        return float(plain_sum(top, communicator)) / max(count, 1.0) - confidence

    return _crossing(excess)


def certainty(prob: Tensor, multi_label: bool, unknown: OptTensor = None) -> Tensor:
    r"""The certainty :math:`\varphi = 1 - H(\mathbf{p}) / \log L` of every row, between 0 and 1.

    For findings it is one minus the mean binary entropy over :math:`\log 2`.

    Args:
        prob (torch.Tensor): Probabilities, of shape :obj:`[num_nodes, num_classes]`.
        multi_label (bool): Whether the columns are findings on their own.
        unknown (torch.Tensor, optional): Findings whose probability is a mere prior and counts as no certainty,
            bool of the shape of ``prob``. (default: :obj:`None`)
    """
    if multi_label:
        entropy = (torch.special.entr(prob) + torch.special.entr(1 - prob)) / math.log(2)
        entropy = (entropy if unknown is None else torch.where(unknown, 1.0, entropy)).mean(dim=1)
    elif prob.size(1) == 1:
        entropy = prob.new_zeros(prob.size(0))
    else:
        entropy = torch.special.entr(prob).sum(dim=1) / math.log(prob.size(1))
    return (1 - entropy).clamp(0, 1)


def fit_sharpness(
    around: Tensor, sign: Tensor, known: Tensor, multi_label: bool, communicator: Communicator = ALONE
) -> float:
    """The inverse temperature with the least log loss; the loss is convex in it, so its slope rises."""
    if multi_label:
        logit, target = around[known], sign[known].double()
        m = int(communicator.sum(torch.tensor(target.numel(), device=target.device)))
        target = 0.5 + target * (0.5 * m / (m + 2))

        def slope(sharpness: float) -> float:
            return float(plain_sum(logit * (torch.sigmoid(sharpness * logit) - target), communicator) / m)

    else:
        rows = known.all(dim=1)
        logit, target = around[rows], (sign[rows].double() + 1) / 2
        m, num_classes = int(communicator.sum(torch.tensor(target.size(0), device=target.device))), target.size(1)
        sure = (m + 1) / (m + 2)
        target = target * sure + (1 - target) * ((1 - sure) / max(num_classes - 1, 1))

        def slope(sharpness: float) -> float:
            loss = logit * (torch.softmax(sharpness * logit, dim=1) - target)
            return float(plain_sum(loss.sum(dim=1), communicator) / m)

    return _crossing(lambda log_sharpness: slope(math.exp(log_sharpness)))


def _crossing(rising: Callable[[float], float]) -> float:
    """Where a rising function of the logarithm crosses zero, or the end of the range that is nearest to it."""
    from scipy.optimize import brentq  # slow to import

    rising = functools.cache(rising)  # every value is a pass over the scores, and `brentq` asks for the ends again
    here, end = 0.0, _LOG_RANGE[rising(0.0) < 0]
    while here != end:  # decades away from one: brentq on the whole range takes two passes more
        before, here = here, max(here - _DECADE, end) if end < 0 else min(here + _DECADE, end)
        if (rising(here) > 0) != (end < 0):
            return math.exp(brentq(rising, min(before, here), max(before, here), xtol=_PRECISION))
    return math.exp(here)
