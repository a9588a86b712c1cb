"""What somebody else says of the nodes (a zero-shot model, a guess), trusted as far as labels and graph agree."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tg_crepe._checks import check_tensor, first_indices
from tg_crepe.energy.normaliser import along_degree
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.expected_error import expect_doubt, own_doubt
from tg_crepe.inference.labels import Labels
from tg_crepe.inference.pool import log_opinion
from tg_crepe.inference.soft_labels import certainty
from tg_crepe.inference.task import Judgement, LabelTask, Solution
from tg_crepe.typing import OptTensor

#: The trust below which evidence is as good as ignored, which a user should know.
IGNORED = 0.05


def check_prior(prior: OptTensor, labels: Labels) -> None:
    """Raise unless soft evidence fits the labels: one distribution per node, or NaN where there is no opinion.

    Args:
        prior (torch.Tensor, optional): Of shape :obj:`[num_nodes, num_classes]`.
        labels (Labels): The labels.
    """
    if prior is None:
        return
    check_tensor("prior", prior)
    shape = [labels.num_nodes, labels.num_classes]
    if list(prior.shape) != shape or not prior.is_floating_point():
        raise ValueError(
            f"'prior' must be of a floating type and of shape [num_nodes, num_classes] = {shape}, got {prior.dtype} of "
            f"shape {list(prior.shape)}"
        )
    if prior.device != labels.sign.device:
        raise ValueError(f"'prior' must be on the device of 'y', {labels.sign.device}, got {prior.device}")
    absent, inside = torch.isnan(prior), (prior >= 0) & (prior < torch.inf)
    if labels.multi_label:
        bad, wanted = ~(absent | (inside & (prior <= 1))).all(dim=1), "numbers between 0 and 1, or NaN for no opinion"
    else:
        row = inside.all(dim=1) & (prior.sum(dim=1) > 0)
        bad, wanted = ~(row | absent.all(dim=1)), "numbers >= 0 that are not all 0, or NaN alone for no opinion"
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        raise ValueError(
            f"'prior' must hold {wanted} in every row, got {prior[at].tolist()}; row(s) {first_indices(bad)}"
        )


def evidence_source(task: LabelTask) -> Tensor:
    r"""The evidence as sources of a diffusion beside the labels: :math:`\varphi(E_i) E_i` at nodes without a label,
    with the certainty :math:`\varphi`, scaled down to at most the mass of all labels; a row that tells nothing is no
    source.

    Of the shape and type of ``task.sources``.
    """
    assert task.evidence is not None  # who has none does not ask
    evidence = task.evidence
    if task.multi_label:
        sure = 1 - (torch.special.entr(evidence) + torch.special.entr(1 - evidence)) / torch.log(
            evidence.new_tensor(2.0)
        )
        weight = _bounded(sure.clamp(min=0) * (task.sign == 0), task)
        return torch.cat([weight * evidence, weight * (1 - evidence)], dim=1).to(task.sign.dtype)
    weight = certainty(evidence, multi_label=False) * ~task.labelled
    return (_bounded(weight, task).unsqueeze(1) * evidence).to(task.sign.dtype)


def _bounded(weight: Tensor, task: LabelTask) -> Tensor:
    """Weights whose sum is at most the number of labels; of findings, column by column."""
    total = task.graph.communicator.sum(weight.sum(dim=0))
    most = task.known_count.double() if task.multi_label else task.positive_count.sum().double()
    return weight * (most / total.clamp(min=torch.finfo(total.dtype).tiny)).clamp(max=1)


def evidence_push(task: LabelTask, graph: CanonicalGraph) -> Tensor:
    r"""What evidence adds to the linear term of the flow (``push`` of :class:`~tg_crepe.solvers.RatioFlow`).

    .. math::
        b = 2 \left( E - \tfrac{1}{L} \right) - \tilde b, \qquad \sum_l b^l = 0, \quad \langle b^l, d \rangle = 0,

    with :math:`\tilde b` the part along the degree. Where the evidence is sure and its classes are of equal volume this
    is the subgradient :math:`q` of the degree-weighted quantile at the partition that it names. Findings have no sum
    over classes.

    Args:
        task (LabelTask): With its evidence; findings are centred at one half, each on its own.
        graph (CanonicalGraph): The graph of the flow.

    Returns:
        torch.Tensor: In double precision, of shape :obj:`[num_nodes, num_classes]`.
    """
    assert task.evidence is not None  # who has none does not ask
    b = 2 * (task.evidence - (0.5 if task.multi_label else 1 / task.num_classes))
    return b - along_degree(b, graph.degree.double(), graph.communicator)


def add_evidence(task: LabelTask, solution: Solution, prob: Tensor) -> Solution:
    r"""A model's soft labels times the evidence, for models that know of none.

    .. math::
        P_i \leftarrow \frac{P_i\, E_i}{\sum_l P_i^l E_i^l},

    for a finding with its complement. Smoothed residuals and evidence that is diffused, as in `Correct-and-Smooth
    <https://arxiv.org/abs/2010.13993>`_, is what CREPE does beside that.

    Args:
        task (LabelTask): With its evidence.
        solution (Solution): What the model answered.
        prob (torch.Tensor): Its soft labels, of shape :obj:`[num_nodes, num_classes]`.

    Returns:
        Solution: Its scores are logarithms of the product, of findings the log-odds (which are calibrated anew), and
        for exclusive classes its expected error is the doubt of the product.
    """
    assert task.evidence is not None  # who has none does not ask
    if task.multi_label:
        one, other = log_opinion(torch.stack([prob.double(), 1 - prob.double()], dim=-1)).unbind(dim=-1)
        return replace(solution, score=one - other + torch.logit(task.evidence))
    score = log_opinion(prob.double()) + task.evidence.log()
    expected = expect_doubt(own_doubt(torch.softmax(score, dim=1), task), None)
    return replace(solution, score=score, judgement=Judgement(expected))
