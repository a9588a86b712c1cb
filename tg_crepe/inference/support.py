from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import PSEUDO_COUNT


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
