"""How far evidence is trusted: as far as the labels and the graph agree with it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe.graph.reductions import plain_sum
from tg_crepe.inference.expected_error import diffused_support, label_worth
from tg_crepe.inference.pool import log_opinion
from tg_crepe.inference.task import LabelTask

#: What evidence leaves to every class, whatever its exponent: its logarithm stays finite.
_LEAST = 1e-9

#: As how many labels the agreement of all unlabelled nodes counts: noise that agrees with a few labels by chance must
#: not be trusted, and labels must be able to contradict a graph whose classes are none.
_GRAPH_LABELS = 1000.0

#: About how many labels it takes to trust evidence of which the graph says nothing: two may agree by chance.
_LABELS = 10.0

#: The largest exponent (evidence is at most taken at its word), and the precision at which the search for it ends.
_MOST, _PRECISION = 1.0, 1e-4


def weigh_prior(task: LabelTask, prior: Tensor, trust: float | None = None) -> tuple[Tensor, float, bool]:
    r"""Evidence as far as the labels and the graph trust it.

    .. math::
        E_i \propto B_i^t, \qquad
        t = \arg\max_{0 \leq t \leq 1} \; \sum_{i \in \mathcal{L}} a_i \log E_i^{y_i}
        + \frac{1000}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \log \sum_l P_i^l \frac{E_i^l}{\bar E^l}
        - \frac{1}{2} t^2,

    where :math:`B` is the evidence, :math:`a_i` what a label is worth, :math:`\bar E` the mean of the evidence over the
    unlabelled nodes :math:`\mathcal{U}`, and :math:`P` what a plain diffusion of the labels says of them
    (:func:`~tg_crepe.inference.expected_error.diffused_support`). The second sum is the log-likelihood of the evidence
    where the class of a node is drawn from :math:`P`. Noise, which has nothing to do with the graph, only loses by it,
    however well it agrees with a handful of labels; evidence that is constant gains nothing there and loses at the
    labels; what is wrong loses at both: :math:`t = 0`.

    Evidence that was made from the labels themselves must be *out of fold* at labelled nodes, or it is trusted too
    much. A finding is two classes; all findings share one :math:`t`, and labels alone decide, with
    :math:`\frac{10}{2} t^2` instead of the last term.

    Args:
        task (LabelTask): The labels.
        prior (torch.Tensor): :math:`B`, of shape :obj:`[num_nodes, total_classes]`, NaN where there is no opinion. What
            it says of classes without a label is no evidence for the others.
        trust (float, optional): :math:`t` where it is given. (default: :obj:`None`, what labels and graph say)

    Returns:
        :math:`E` in double precision, of shape :obj:`[num_nodes, num_classes]`, which tells nothing (:math:`1/L`, or
        one half of a finding) where there is no opinion; :math:`t`; and whether any label could judge it.
    """
    opinion, known, y = _opinions(task, prior)
    communicator = task.graph.communicator
    held = communicator.gather(opinion[known].view(-1))[0].view(-1, opinion.size(-1))
    own = communicator.gather(y[known])[0]
    if trust is None:
        trust = _fit_trust(held, own, None if task.multi_label else _agreement(task, opinion))
    tempered = torch.softmax(trust * opinion, dim=-1).clamp(_LEAST, 1 - _LEAST)
    return (tempered[..., 0] if task.multi_label else tempered), trust, own.numel() > 0


def _fit_trust(held: Tensor, own: Tensor, agreement: Callable[[float], float] | None) -> float:
    """The exponent with the least loss at the labels ``own`` and on the graph; one where nobody can judge it."""
    from scipy.optimize import minimize_scalar  # slow to import

    if not own.numel() and agreement is None:
        return 1.0
    worth = label_worth(own, held.new_full((held.size(1),), 1 / held.size(1))) if own.numel() else held.new_zeros(0)
    labels = _LABELS if agreement is None else 1.0

    def loss(t: float) -> float:
        log_prob = torch.log_softmax(t * held, dim=1)
        fit = float(worth @ log_prob.gather(1, own.unsqueeze(1)).squeeze(1))
        around = 0.0 if agreement is None else _GRAPH_LABELS * agreement(t)
        return labels / 2 * t * t - fit - around

    found = minimize_scalar(loss, bounds=(0.0, _MOST), method="bounded", options={"xatol": _PRECISION})
    return float(found.x) if found.fun < loss(0.0) else 0.0


def _agreement(task: LabelTask, opinion: Tensor) -> Callable[[float], float] | None:
    r"""The mean of :math:`\log \sum_l P_i^l E_i^l / \bar E^l` as a function of the exponent; :obj:`None` where no
    unlabelled node has an opinion."""
    communicator = task.graph.communicator
    told = ~task.labelled & (opinion.amax(dim=1) > opinion.amin(dim=1))
    number = float(communicator.sum(told.sum().double()))
    if not number:
        return None
    support, opinion = diffused_support(task)[told], opinion[told]

    def agreement(t: float) -> float:
        evidence = torch.softmax(t * opinion, dim=1)
        mean = communicator.sum(evidence.sum(dim=0)) / number
        return float(plain_sum(torch.log((support * evidence / mean).sum(dim=1)), communicator)) / number

    return agreement


def _opinions(task: LabelTask, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logarithms of the evidence, zero without an opinion, classes last; where a label may judge it; and the class of
    that label."""
    prior = prior.double()
    if task.multi_label:
        prior = prior[:, task.classes]
        absent = torch.isnan(prior)
        both = torch.stack([prior, 1 - prior], dim=-1)
        opinion = torch.where(absent.unsqueeze(-1), 0.0, log_opinion(both.nan_to_num(0.5)))
        return opinion, (task.sign != 0) & ~absent, (task.sign < 0).long()
    total = prior.sum(dim=1, keepdim=True)
    absent = ~(total > 0)
    share = torch.where(absent, 1 / prior.size(1), prior / torch.where(absent, 1.0, total))
    # Classes without a label are left out of the logarithms, not of the shares: who speaks for one of them says next to
    # nothing of the others.
    opinion = torch.where(absent, 0.0, log_opinion(share)[:, task.classes])
    return opinion, task.labelled & ~absent.view(-1), task.y.clamp(min=0)
