"""What a run keeps of a few nodes alone: their way along the flow, their images, and which to label next."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe.active import label_next
from tg_crepe.solvers.observers import FlowMoments

#: Nodes whose class functions a run keeps along the flow, and how many of the labelled ones among them at most.
_KEPT, _LABELLED = 2000, 500

#: Images that a run keeps beside the pseudo-labels where they are large, the bytes that small ones may fill together,
#: and nodes that its page suggests for a label.
_THUMBNAILS, _BYTES, _SUGGESTED = 500, 16 << 20, 16


def nodes_with_moments(num_nodes: int, labelled: Any = None) -> Tensor:
    """The nodes whose class functions are kept along the flow, and which the map shows: evenly spread, and those with a
    given label (bool of shape :obj:`[num_nodes]`)."""
    kept = _evenly(num_nodes, _KEPT)
    if labelled is None:
        return kept
    given = torch.as_tensor(labelled).view(num_nodes, -1).any(dim=1).nonzero().view(-1)
    return torch.cat([kept, given[_evenly(len(given), _LABELLED)]]).unique() if len(given) else kept


def moment_fields(moments: FlowMoments | None) -> dict[str, np.ndarray]:
    """The fields of a :class:`~tg_crepe.runs.RunResult` that hold the moments of a flow, if there was one."""
    if moments is None:
        return {}
    return {"flow_node": moments.node.numpy(), "flow_time": moments.time.numpy(), "flow_u": moments.u.numpy()}


def suggest_nodes(prob: Any, labelled: Any, graph: tuple[Any, ...], multi_label: bool) -> Tensor:
    r"""The nodes that the page of a run asks to label next, the best first.

    Args:
        prob (torch.Tensor or numpy.ndarray): Soft labels, of shape :obj:`[num_nodes, num_classes]`.
        labelled (torch.Tensor or numpy.ndarray): Which nodes have a label, bool of shape :obj:`[num_nodes]`.
        graph (tuple): Edges of shape :obj:`[2, num_edges]`, and their weights.
        multi_label (bool): Whether the columns of ``prob`` are findings on their own.
    """
    soft = torch.as_tensor(prob).cpu().double().clamp(0, 1)
    mask, edge_index, edge_weight = (torch.as_tensor(part).cpu() for part in (labelled, *graph[:2]))
    return label_next(soft, mask, edge_index, edge_weight, n=_SUGGESTED, multi_label=multi_label)


def nodes_with_image(
    num_nodes: int, suggested: Tensor | None = None, labelled: Any = None, bytes_each: int | None = None
) -> Tensor:
    """The nodes whose image is kept: those whose flow is kept too, so that one map shows both, or as many of them as
    images of ``bytes_each`` have room for; and ``suggested``."""
    kept = nodes_with_moments(num_nodes, labelled)
    most = _THUMBNAILS if bytes_each is None else max(_THUMBNAILS, _BYTES // max(bytes_each, 1))
    node = kept[_evenly(len(kept), most)]
    return node if suggested is None else torch.cat([node, suggested]).unique()


def _evenly(count: int, most: int) -> Tensor:
    """At most so many of the numbers below ``count``, evenly spread."""
    return torch.linspace(0, count - 1, min(most, count), dtype=torch.float64).round().long()
