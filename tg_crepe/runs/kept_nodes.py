"""What a run keeps of a few nodes alone: their way along the flow, their images, and which to label next."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe.active import label_next
from tg_crepe.models.base import EnergyModel, PropagationResult
from tg_crepe.models.crepe.model import CrepePropagation
from tg_crepe.warnings import ConvergenceWarning, GraphWarning

#: Nodes whose class functions a run keeps, and the moments of the flow at which it does, as shares of its length.
_KEPT, _MOMENTS = 2000, (0.25, 0.5, 1.0)

#: Images that a run keeps beside the pseudo-labels, and nodes that its page suggests for a label.
_THUMBNAILS, _SUGGESTED = 500, 16


def flow_moments(
    model: EnergyModel, solve: Callable[[EnergyModel], PropagationResult], u: Tensor
) -> dict[str, np.ndarray] | None:
    r"""The class functions of some nodes at a few moments of CREPE's flow, by flows of a part of its length.

    Args:
        model (EnergyModel): The model; only the flow of :class:`~tg_crepe.CrepePropagation` has moments.
        solve (callable): Runs a model on the same graph and labels.
        u (torch.Tensor): The class functions at the end, of shape :obj:`[num_nodes, num_classes]`.

    Returns:
        The fields ``flow_node``, ``flow_time`` and ``flow_u`` of a :class:`~tg_crepe.runs.RunResult`, or None.
    """
    if not isinstance(model, CrepePropagation) or model.time_step is not None:
        return None
    node = _spread(len(u), _KEPT)
    kept = []
    for share in _MOMENTS:
        at = u if share == 1 else _shortened(model, share, solve)
        scale = at.abs().mean().clamp(min=torch.finfo(at.dtype).tiny)
        kept.append((at[node.to(at.device)] / scale).clamp(-6e4, 6e4).half().cpu())  # what half precision can hold
    return {
        "flow_node": node.numpy(),
        "flow_time": np.array(_MOMENTS, dtype=np.float32),
        "flow_u": torch.stack(kept).numpy(),
    }


def _shortened(model: CrepePropagation, share: float, solve: Callable[[EnergyModel], PropagationResult]) -> Tensor:
    """The class functions after a part of the flow; what there is to warn of was said of the whole flow."""
    part = copy.copy(model)
    part.time = share * model.time
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, GraphWarning):
            warnings.simplefilter("ignore", kind)
        return solve(part).u


def suggested_nodes(prob: Any, labelled: Any, graph: tuple[Any, ...], multi_label: bool) -> Tensor:
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


def nodes_with_image(num_nodes: int, suggested: Tensor | None = None) -> Tensor:
    """The nodes whose image is kept: some whose flow is kept too, so that one map shows both, and ``suggested``."""
    kept = _spread(num_nodes, _KEPT)
    node = kept[_spread(len(kept), _THUMBNAILS)]
    return node if suggested is None else torch.cat([node, suggested]).unique()


def _spread(count: int, most: int) -> Tensor:
    """At most so many of the numbers below ``count``, evenly spread."""
    return torch.linspace(0, count - 1, min(most, count), dtype=torch.float64).round().long()
