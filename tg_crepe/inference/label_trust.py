"""How far labels can be trusted, from the labels themselves: by those around them, and by those that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import PSEUDO_COUNT, normalise_masses, resolve_volume
from tg_crepe.solvers.resolvent import loose_resolvent

#: The precision of the diffusions; what is counted are largest entries.
_TOL = 1e-1

#: The screening rate over the root of the labels per class, where a model has none of its own.
_RATE = 0.03

#: How much of the error the other half of one label per class takes away; with p labels per class it is this over √p.
_GAIN = 0.9


@dataclass(frozen=True)
class HeldOut:
    r"""What two halves of the labels say of nodes whose label they do not know.

    Args:
        error (float): The expected share of wrong labels among the unlabelled nodes, with all labels.
        support (torch.Tensor): The mean soft label of the two halves, of shape :obj:`[num_nodes, num_classes]`.
    """

    error: float
    support: Tensor


def hold_out(task: LabelTask, rate: float | None = None) -> HeldOut | None:
    r"""How often labels found on a graph are wrong, from two diffusions that know one half of the labels each.

    With :math:`P^{(1)}, P^{(2)}` the soft labels of :func:`~tg_crepe.inference.volumes.normalise_masses` from either
    half, :math:`\mathcal{L}` and :math:`\mathcal{U}` the labelled and the unlabelled nodes,

    .. math::
        \hat e = \left( 1 - \frac{0.9}{\sqrt{p}} \right) \max(e_1, e_2), \qquad
        e_1 = \frac{|\{ i \in \mathcal{U} : \arg\max P_i^{(1)} \neq \arg\max P_i^{(2)} \}|}{|\mathcal{U}|}, \qquad
        e_2 = \frac{|\{ (i, h) : i \in \mathcal{U}, \max_l P_i^{(h)} < c \}|}{2 |\mathcal{U}|},

    where :math:`p` is the number of labels per class. :math:`e_1` is how often the halves disagree, which is the error
    of either where soft labels are calibrated (`"Assessing Generalization via Disagreement"
    <https://arxiv.org/abs/2106.13799>`_). :math:`e_2` is how often they are less sure than :math:`c`: of the labelled
    nodes, judged by the half that does not know them, :math:`k` are wrong, and :math:`c` is the :math:`(k+1)`-th
    smallest of their :math:`\max_l P_i^l` (`"Leveraging Unlabeled Data to Predict Out-of-Distribution Performance"
    <https://arxiv.org/abs/2201.04234>`_). Counting :math:`k` alone would trust that labelled nodes are like the others,
    and those that a network was trained on are not. The factor is what the other half of the labels is worth.

    The labels of a class are halved in the order of the evidence that they get, every second one, so that neither the
    order of the nodes nor that of the classes matters. A class with one label has it in both halves.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rate (float, optional): The screening rate :math:`x` of the diffusions.
            (default: :obj:`None`, :math:`0.03 \sqrt{p}`)

    Returns:
        HeldOut, optional: :obj:`None` where most labels are the only one of their class, or no node is unlabelled.
    """
    graph, communicator = task.graph, task.graph.communicator
    count = task.positive_count
    num_labels, splittable = int(count.sum()), int(count[count > 1].sum())
    num_free = graph.total_nodes - num_labels
    if 2 * splittable < num_labels or num_free == 0:
        return None
    labels = num_labels / task.num_classes
    alpha = 1 / (1 + (_RATE * math.sqrt(labels) if rate is None else rate))
    source = task.sources
    single = task.labelled & (count[task.y] == 1)
    both = loose_resolvent(graph, source, alpha, _TOL)
    first = _every_second(task, both) | single
    diffused = loose_resolvent(graph, source * first.unsqueeze(1), alpha, _TOL)
    rest = both - diffused
    if splittable < num_labels:  # what is in both halves was taken away with the first
        rest += loose_resolvent(graph, source * single.unsqueeze(1), alpha, _TOL)
    volume = resolve_volume("class_volume", "labels", task)
    soft = [normalise_masses(x, task, graph, volume) for x in (diffused, rest)]
    (sure, label), (other_sure, other_label) = (p.max(dim=1) for p in soft)

    free, judged = ~task.labelled, task.labelled & ~single
    wrong = int(communicator.sum((torch.where(first, other_label, label) != task.y)[judged].sum()))
    limit = (
        communicator.gather(torch.where(first, other_sure, sure)[judged])[0].sort().values[min(wrong, splittable - 1)]
    )
    events = [label != other_label, sure < limit, other_sure < limit]
    apart, unsure, other_unsure = communicator.sum(torch.stack([event[free].sum() for event in events])).tolist()
    error = (1 - _GAIN / math.sqrt(labels)) * max(apart, (unsure + other_unsure) / 2) / num_free
    return HeldOut(error, soft[0].add_(soft[1]).div_(2))


def _every_second(task: LabelTask, evidence: Tensor) -> Tensor:
    """Every second labelled node of every class in the order of the evidence for it, bool of shape [num_nodes]."""
    communicator, own = task.graph.communicator, task.labelled.nonzero().view(-1)
    y = task.y[own]
    value, begin = communicator.gather(evidence[own, y].double())
    group = communicator.gather(y)[0]
    order = value.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    before = torch.bincount(group, minlength=task.num_classes).cumsum(0) - task.positive_count
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    chosen = (place - before[group]) % 2 == 1
    found = torch.zeros_like(task.labelled)
    found[own] = chosen[begin : begin + len(own)]
    return found


def label_support(prob: Tensor, task: LabelTask, pseudo_count: float = PSEUDO_COUNT) -> float:
    r"""How much better than chance the unlabelled neighbours of labelled nodes know their labels, from 0 to 1.

    .. math::
        a = \left[ \frac{s - b}{1 - b} \right]_0^1, \qquad
        s = \frac{cL + |\{ i \in \mathcal{L} : \arg\max_l \bar P_i^l = y_i \}|}{cL + |\mathcal{L}|},

    where :math:`\bar P_i` is the weighted mean of the soft labels over the neighbours of node :math:`i` that are not
    labelled (nodes without one are left out), :math:`c` the labels of every class that are imagined to be supported
    before any is looked at, and :math:`b` the largest share of a class among the labels. Labels are
    supported in full where the classes are clusters of the graph, however few there are; where they are not, and
    labels many enough to notice, cutting the graph along its clusters does not help to tell the classes apart.

    Args:
        prob (torch.Tensor): Soft labels, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The graph and the labels, exclusive ones.
        pseudo_count (float, optional): :math:`c`. (default: :obj:`5`)
    """
    communicator = task.graph.communicator
    around, judged = unlabelled_mean(task.graph, prob, task.labelled)
    judged = judged & task.labelled
    hits, total = communicator.sum(
        torch.stack([((around.argmax(dim=1) == task.y) & judged).sum(), judged.sum()])
    ).tolist()
    imagined = pseudo_count * task.num_classes
    count = task.positive_count.double()
    chance = float(count.max() / count.sum())
    supported = (hits + imagined) / (total + imagined)
    return 1.0 if chance == 1 else max((supported - chance) / (1 - chance), 0.0)


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
