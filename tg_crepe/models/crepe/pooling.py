from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tg_crepe.inference.expected_error import expect_doubt, label_worth, mean_doubt, own_doubt
from tg_crepe.inference.held_out import judge_parts
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.pool import by_rows, log_opinion, trust_opinions
from tg_crepe.inference.soft_labels import match_confidence
from tg_crepe.inference.task import Judgement, LabelTask, Solution
from tg_crepe.models.crepe.confidence import share_doubt
from tg_crepe.models.crepe.start import Start
from tg_crepe.models.wnll import solve_wnll
from tg_crepe.typing import OptTensor

#: The residual of the harmonic extensions, with all labels and without some.
_TOL = 1e-3

#: The exponent of evidence without a label, and about how many labels it takes to move it: what has spread is trusted
#: by then, by all nodes, and a handful of labels must not take that back; what has not must earn its trust here.
_SPREAD, _ALONE, _HELD = (1.0, 10.0), (0.0, 10.0), (1.0, 1e9)


@dataclass(frozen=True)
class PoolTrust:
    """What labels that were left out said of the opinions.

    Args:
        exponent (torch.Tensor): How far each is trusted, the flow first, in double precision, of shape
            :obj:`[num_opinions]`.
        worth (torch.Tensor, optional): See :func:`~tg_crepe.inference.expected_error.label_worth`; :obj:`None` where no
            label could be left out.
    """

    exponent: Tensor
    worth: OptTensor


def pool_opinions(
    task: LabelTask,
    solution: Solution,
    start: Start,
    start_score: Tensor,
    part: OptTensor,
    score_without: Callable[[LabelTask], Tensor],
    prior: float,
    bound: OptTensor = None,
    outvote: bool = False,
    trusted: PoolTrust | None = None,
) -> Solution:
    r"""The flow and the labels near by as one opinion, calibrated.

    The flow cuts the graph along its clusters, a harmonic extension with re-weighted labels
    (:class:`~tg_crepe.WNLL`) asks which labels are near. Where classes are clusters the first is right, where a cluster
    holds several classes the second. Labels that are left out say how far each is to be trusted
    (:func:`~tg_crepe.inference.pool.trust_opinions`). Before them the start stands in for the flow: a flow for every
    part of the labels would take as long as all the rest, and says the same.

    Scores become soft labels at the temperature at which their mean doubt is

    .. math::
        e_0 = \frac{1}{2} \left( 1 - \frac{1}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \max_l P_i^l
        + \frac{|\{ i \in \mathcal{U} : \text{the two opinions differ} \}|}{|\mathcal{U}|} \right),

    the mean of the doubt that the first diffusion :math:`P` has of itself and the share of the unlabelled nodes
    :math:`\mathcal{U}` that the two opinions label differently: with one label per class that is all there is to go by.
    Labels that were left out correct the temperature together with the trust; the flow gets the mean doubt that the
    start has then, not its exponent: its scores are those of a partition, and twice as steep they leave no doubt. How
    sure every single node is, is at last the mean of this and of the same with the start's diffusion in the place of
    the flow (:func:`~tg_crepe.models.crepe.confidence.share_doubt`); labels do not change by it.

    Args:
        task (LabelTask): The task.
        solution (Solution): The end of the flow.
        start (Start): The first start, with its ``support``.
        start_score (torch.Tensor): Its scores, of shape :obj:`[num_nodes, num_classes]`.
        part (torch.Tensor, optional): The parts of the labels, see
            :func:`~tg_crepe.inference.held_out.deal_labels`.
        score_without (callable): The scores of the start of a task with fewer labels.
        prior (float): :math:`\lambda` of :func:`~tg_crepe.inference.pool.trust_opinions`.
        bound (torch.Tensor, optional): Class volumes that the labels are to have, of shape :obj:`[num_classes]`.
            (default: :obj:`None`)
        outvote (bool, optional): Whether labelled nodes are answered for: what is near them is then their own label,
            and no opinion. (default: :obj:`False`)
        trusted (PoolTrust, optional): What labels that were left out have said; nobody is asked anew.
            (default: :obj:`None`)

    Returns:
        Solution: Its scores are logarithms of probabilities, up to a constant per node, and it is judged; the trust is
        in the judgement.
    """
    free, communicator = ~task.labelled, task.graph.communicator
    assert start.support is not None  # the first start by diffusion has it
    near = solve_wnll(task, _TOL).score
    doubt = 0.5 * (own_doubt(start.support, task) + _differing(solution.score, near, task))
    others = [] if task.evidence is None else [task.evidence]
    prior_exponent, prior_labels = _HELD if task.hold_evidence else _SPREAD if task.spread_evidence else _ALONE
    expected = torch.tensor([1.0, 0.0, *(prior_exponent for _ in others)], dtype=torch.float64, device=near.device)

    def sharpness(score: Tensor, doubt: float) -> float:
        return match_confidence(score[free], 1 - doubt, communicator)

    def flow_opinion(score: Tensor, scale: float) -> Tensor:
        return by_rows(lambda rows: log_opinion(torch.softmax(scale * rows, dim=1)), score)

    def doubt_of(score: Tensor) -> float:
        return mean_doubt(by_rows(lambda rows: torch.softmax(rows, dim=1).amax(dim=1), score), task)

    start_scale = sharpness(start_score, doubt)

    def ask(part: Tensor) -> PoolTrust:
        def without(rest: LabelTask, left: Tensor) -> Tensor:
            around = rest
            if rest.spread is not None:
                # What the graph says of a node must not be what the evidence says of it: that is an opinion of its own.
                around = replace(rest, evidence=rest.spread.masked_fill(left.unsqueeze(1), 1 / rest.num_classes))
            flow = flow_opinion(score_without(around)[left], start_scale)
            return torch.stack(
                [flow, *(log_opinion(x[left].double()) for x in (solve_wnll(rest, _TOL).score, *others))]
            )

        opinion, y = judge_parts(task, part, without)
        worth = label_worth(y, start.volume.share)
        priors = [1.0, prior, *(prior_labels for _ in others)]
        return PoolTrust(trust_opinions(opinion, y, worth, expected.tolist(), priors), worth)

    if trusted is None:
        trusted = PoolTrust(expected, None) if part is None else ask(part)
    trust = trusted.exponent
    if trusted.worth is not None:
        doubt = doubt_of(trust[0] * flow_opinion(start_score, start_scale))
        trust = torch.cat([torch.ones_like(trust[:1]), trust[1:]])
    around = by_rows(lambda rows: log_opinion(rows.double()), near).mul_(trust[1])
    if outvote:
        around[~free] = 0
    for opinion, exponent in zip(others, trust[2:], strict=True):
        around += exponent * log_opinion(opinion)
    pooled = flow_opinion(solution.score, sharpness(solution.score, doubt)).mul_(trust[0]).add_(around)
    if bound is not None:
        pooled = match_volumes(pooled, task, bound)[0]
    diffused = by_rows(lambda rows: log_opinion(rows.double()), start.support)
    sharp = sharpness(diffused, doubt_of(pooled))
    diffused = by_rows(lambda rows: torch.softmax(sharp * rows, dim=1), diffused)
    score = by_rows(share_doubt, pooled, around, diffused)
    expected_error = expect_doubt(mean_doubt(by_rows(lambda rows: rows.amax(dim=1).exp(), score), task), trusted.worth)
    said = float(trust[2]) if others else 1.0
    judgement = Judgement(expected_error, trust=trusted)
    return replace(solution, score=score, judgement=judgement, evidence_trust=said)


def _differing(one: Tensor, other: Tensor, task: LabelTask) -> float:
    """The share of the unlabelled nodes that two scores label differently."""
    free = ~task.labelled
    differ, number = task.graph.communicator.sums(
        (one.argmax(dim=1) != other.argmax(dim=1))[free].sum().double().view(1), free.sum().double().view(1)
    )
    return float(differ / number.clamp(min=1))
