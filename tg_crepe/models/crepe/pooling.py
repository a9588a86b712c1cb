from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tg_crepe.inference.expected_error import expect_doubt, label_worth, own_doubt
from tg_crepe.inference.held_out import judge_parts
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.pool import log_opinion, trust_opinions
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

    Returns:
        Solution: Its scores are logarithms of probabilities, up to a constant per node, and it is judged.
    """
    free, communicator = ~task.labelled, task.graph.communicator
    assert start.support is not None  # the first start by diffusion has it
    near = solve_wnll(task, _TOL).score.double()
    doubt = 0.5 * (own_doubt(start.support, task) + _differing(solution.score, near, task))
    others = [] if task.evidence is None else [task.evidence]
    prior_exponent, prior_labels = _HELD if task.hold_evidence else _SPREAD if task.spread_evidence else _ALONE
    expected = torch.tensor([1.0, 0.0, *(prior_exponent for _ in others)], dtype=torch.float64, device=near.device)

    def sharpness(score: Tensor, doubt: float) -> float:
        return match_confidence(score[free], 1 - doubt, communicator)

    def opinions(score: Tensor, near: Tensor) -> Tensor:
        return log_opinion(torch.stack([torch.softmax(score, dim=1), near, *others]))

    trust, worth = expected, None
    if part is not None:
        scale = sharpness(start_score, doubt)

        def without(rest: LabelTask) -> Tensor:
            around = rest
            if rest.spread is not None:
                # What the graph says of a node must not be what the evidence says of it: that is an opinion of its own.
                left = (task.labelled & ~rest.labelled).unsqueeze(1)
                around = replace(rest, evidence=rest.spread.masked_fill(left, 1 / rest.num_classes))
            return opinions(scale * score_without(around), solve_wnll(rest, _TOL).score.double())

        opinion, y = judge_parts(task, part, without)
        worth = label_worth(y, start.volume.share)
        trust = trust_opinions(opinion, y, worth, expected.tolist(), [1.0, prior, *(prior_labels for _ in others)])
        doubt = own_doubt(torch.softmax(trust[0] * opinions(scale * start_score, near)[0], dim=1), task)
        trust = torch.cat([torch.ones_like(trust[:1]), trust[1:]])
    own = opinions(sharpness(solution.score, doubt) * solution.score, near)
    if outvote:
        own[1, ~free] = 0
    around = torch.tensordot(trust[1:], own[1:], 1)
    pooled = trust[0] * own[0] + around
    if bound is not None:
        pooled = match_volumes(pooled, task, bound)[0]
    doubt = own_doubt(torch.softmax(pooled, dim=1), task)
    diffused = log_opinion(start.support.double())
    diffused = torch.softmax(sharpness(diffused, doubt) * diffused, dim=1)
    score = share_doubt(pooled, around, diffused)
    doubt = own_doubt(score.exp(), task)
    said = float(trust[2]) if others else 1.0
    return replace(solution, score=score, judgement=Judgement(expect_doubt(doubt, worth)), evidence_trust=said)


def _differing(one: Tensor, other: Tensor, task: LabelTask) -> float:
    """The share of the unlabelled nodes that two scores label differently."""
    free = ~task.labelled
    differ, number = task.graph.communicator.sums(
        (one.argmax(dim=1) != other.argmax(dim=1))[free].sum().double().view(1), free.sum().double().view(1)
    )
    return float(differ / number.clamp(min=1))
