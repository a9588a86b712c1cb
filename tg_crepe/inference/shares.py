from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import read_array
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.join import GivenGraph, read_graphs, weighted_sum
from tg_crepe.inference.held_out import deal_labels, leave_out
from tg_crepe.inference.labels import Labels, read_labels
from tg_crepe.inference.task import LabelTask
from tg_crepe.typing import OptTensor

#: How many times the share of every other graph one graph may get, or give, and how likely each is before a label is
#: left out, beside equal shares. No graph is ever dropped: what is isolated in the others is reached through it.
_ODDS = (2.0, 6.0, 50.0)
_PRIOR = (0.5, 0.25, 0.125)

#: The screening rate of the diffusions over the root of the labels per class: where labels that were left out are found
#: most often on joined citation graphs is where CREPE's error is lowest, at this rate more so than at larger ones.
_RATE = 0.03


@torch.no_grad()
def choose_shares(
    graphs: Sequence[GivenGraph],
    y: Tensor | np.ndarray,
    mask: OptTensor | np.ndarray = None,
    num_classes: int | None = None,
    symmetrize: str = "max",
) -> Tensor:
    r"""The shares of several graphs in their sum, as far as labels that are left out can tell.

    .. math::
        a = \sum_k w_k a_k, \qquad
        \log w_k = \log w_k^0 + \mathrm{sgn}(\Delta_k) \frac{\Delta_k^2}{2 (D_k + 1)} + \mathrm{const},

    where the :math:`a_k` are equal shares, and those where one graph has 2, 6 or 50 times the share of every other, or
    these of it. Every part of the labels is left out once and looked for by a diffusion of the others on the sum of the
    graphs (:func:`~tg_crepe.inference.held_out.leave_out`); of the :math:`D_k` labels on which shares :math:`a_k` and
    equal ones disagree, :math:`a_k` finds :math:`\Delta_k` more: the likelihood ratio of a sign test, as in
    :func:`~tg_crepe.inference.rate.weigh_rates`. Few labels leave the shares equal, many decide. A graph of noise that
    does no harm, because nearly all nodes have labels around them, keeps some of its share.

    .. code-block:: python

        from tg_crepe import choose_shares, join_graphs, knn_graph

        graphs = [(data.edge_index, None), knn_graph(data.x, k=20)]
        share = choose_shares(graphs, data.y, data.train_mask)
        edge_index, edge_weight = join_graphs(graphs, share)

    Args:
        graphs (sequence): As for :func:`~tg_crepe.join_graphs`.
        y (torch.Tensor or numpy.ndarray): Classes, long of shape :obj:`[num_nodes]` or :obj:`[num_nodes, 1]`, read only
            where they are known.
        mask (torch.Tensor or numpy.ndarray, optional): Which nodes are labelled: bool of shape :obj:`[num_nodes]`, or
            indices. (default: :obj:`None`, where ``y`` is not negative)
        num_classes (int, optional): The number of classes. (default: :obj:`None`, the largest labelled one + 1)
        symmetrize (str, optional): As for :func:`~tg_crepe.join_graphs`. (default: :obj:`"max"`)

    Returns:
        torch.Tensor: :math:`a`, numbers > 0 that sum to one, in double precision on the CPU, of shape
        :obj:`[num_graphs]`.
    """
    labels = read_labels(read_array("y", y), read_array("mask", mask), num_classes, None)
    if labels.multi_label:
        raise ValueError(f"'y' must hold one class per node, of shape [num_nodes], got {list(y.shape)}")
    parts = read_graphs(graphs, labels.num_nodes, symmetrize)
    if parts[0].edge_weight.device != labels.sign.device:
        raise ValueError(f"'y' must be on the device of the graphs, {parts[0].edge_weight.device}, got {y.device}")
    share, prior = _candidates(len(parts))
    equal = share[0]
    if len(parts) == 1:
        return equal
    task = _task(weighted_sum(parts, equal.tolist()), labels)
    if task is None:
        return equal
    rate = _RATE * math.sqrt(float(task.positive_count.sum()) / task.num_classes)
    part = deal_labels(task, rate)
    if part is None:
        return equal
    hits = []
    for own in share.tolist():
        joined = _task(weighted_sum(parts, own), labels)
        assert joined is not None  # the edges are the same for all shares
        hits.append(leave_out(joined, [rate], part).hits()[0].long())
    change = torch.stack(hits).cpu() - hits[0].cpu()
    more, apart = change.sum(dim=1).double(), change.abs().sum(dim=1).double()
    weight = torch.softmax(prior.log() + more * more.abs() / (2 * (apart + 1)), dim=0)
    return weight @ share


def _candidates(num_graphs: int) -> tuple[Tensor, Tensor]:
    """Shares of shape [num_candidates, num_graphs], equal ones first, and how likely each is beforehand."""
    rows, prior = [torch.ones(num_graphs, dtype=torch.float64)], [1.0]
    for graph in range(num_graphs):
        for odds, likely in zip(_ODDS, _PRIOR, strict=True):
            # Of two graphs, one that gives is the other that gets.
            for factor in (odds, 1 / odds) if num_graphs > 2 else (odds,):
                rows.append(torch.ones(num_graphs, dtype=torch.float64))
                rows[-1][graph] = factor
                prior.append(likely)
    share = torch.stack(rows)
    return share / share.sum(dim=1, keepdim=True), torch.tensor(prior, dtype=torch.float64)


def _task(graph: CanonicalGraph, labels: Labels) -> LabelTask | None:
    """The task on what labels reach; None where nothing is left of it."""
    inside = torch.isin(graph.component, graph.component[labels.labelled]) & (graph.degree > 0)
    columns = labels.usable(inside).nonzero().view(-1)
    if not columns.numel():
        return None
    sign = labels.sign[inside][:, columns].to(graph.edge_weight.dtype)
    return LabelTask(graph.subgraph(inside), sign, False, columns, labels.num_classes)
