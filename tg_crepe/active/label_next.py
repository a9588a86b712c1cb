from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_mask, check_tensor
from tg_crepe.active.coverage import choose_covering
from tg_crepe.active.criteria import margin, ratio_change, uncertainty
from tg_crepe.active.variance import VarianceReduction, doubt_value
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.typing import Adjacency, OptTensor

#: The ways to choose.
STRATEGIES = ("coverage", "variance", "uncertainty", "margin", "ratio", "random")


@torch.no_grad()
def label_next(
    prob: Tensor,
    labelled: Tensor,
    edge_index: Adjacency,
    edge_weight: OptTensor = None,
    n: int = 10,
    strategy: str = "coverage",
    multi_label: bool = False,
    seed: int = 0,
) -> Tensor:
    r"""Which nodes to label next, the most useful first.

    .. code-block:: python

        from tg_crepe.active import label_next

        result = CrepePropagation().propagate(y, edge_index, mask, edge_weight)
        nodes = label_next(result.prob, mask, edge_index, edge_weight, n=50)

    Args:
        prob (torch.Tensor): Soft labels, of shape :obj:`[num_nodes, num_classes]`.
        labelled (torch.Tensor): The nodes that need no label: bool of shape :obj:`[num_nodes]`, or indices.
        edge_index: The graph, in any form that :meth:`~tg_crepe.EnergyModel.propagate` takes.
        edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
        n (int, optional): How many; fewer come back where fewer are left. (default: :obj:`10`)
        strategy (str, optional): :obj:`"coverage"` (the doubt in a node's neighbourhood that earlier choices do not
            cover, see :func:`~tg_crepe.active.coverage.choose_covering`: no two from the same neighbourhood),
            :obj:`"variance"` (what lowers the variance of doubtful nodes most, see
            :class:`~tg_crepe.active.variance.VarianceReduction`: better with few labels, and takes the smoothest modes
            of the graph, which a prepared graph keeps),
            :obj:`"uncertainty"` (the entropy), :obj:`"margin"` (of the two most probable classes), :obj:`"ratio"` (the
            expected change of the ratio energy) or :obj:`"random"`. (default: :obj:`"coverage"`)
        multi_label (bool, optional): Whether the columns of ``prob`` are findings on their own.
            (default: :obj:`False`)
        seed (int, optional): The seed of :obj:`"random"`. (default: :obj:`0`)

    Returns:
        torch.Tensor: Nodes, of shape :obj:`[min(n, num_unlabelled)]`.
    """
    check_choice("strategy", strategy, STRATEGIES)
    check_count("n", n)
    if check_tensor("prob", prob).dim() != 2 or prob.numel() == 0:
        raise ValueError(f"'prob' must be of shape [num_nodes, num_classes], got {list(prob.shape)}")
    if not bool(((prob >= 0) & (prob <= 1)).all()):
        raise ValueError("'prob' must lie in [0, 1], got others")
    candidate = ~check_mask(labelled, prob.size(0), "labelled")
    n = min(n, int(candidate.sum()))
    if strategy == "random":
        order = torch.randperm(prob.size(0), generator=torch.Generator().manual_seed(seed)).to(candidate.device)
        return order[candidate[order]][:n]
    if strategy == "uncertainty":
        return _largest(uncertainty(prob, multi_label), candidate, n)
    if strategy == "margin":
        return _largest(margin(prob, multi_label), candidate, n)
    graph, _ = canonical_graph(edge_index, edge_weight, prob.size(0))
    if strategy == "ratio":
        return _largest(ratio_change(prob, graph, multi_label), candidate, n)
    if strategy == "variance":
        known = (~candidate).nonzero().view(-1)
        # A label tells of all findings at once: with them there is no class that has none.
        counts = torch.tensor([len(known)]) if multi_label else prob[known].argmax(dim=1).bincount()
        value = doubt_value(uncertainty(prob, multi_label), candidate, counts)
        return VarianceReduction.of_graph(graph).choose(value, known.tolist(), candidate, n)
    doubt = uncertainty(prob, multi_label).where(candidate, 0.0)
    return choose_covering(doubt, graph, candidate, n)


def _largest(value: Tensor, candidate: Tensor, n: int) -> Tensor:
    """The ``n`` candidates of the largest value, the lowest index first on a tie."""
    return value.masked_fill(~candidate, -torch.inf).sort(descending=True, stable=True).indices[:n]
