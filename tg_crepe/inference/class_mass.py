from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask


def class_shares(x: Tensor, task: LabelTask, graph: CanonicalGraph, volume: Tensor) -> Tensor:
    """The diffused sources ``x`` as shares, with class-mass normalisation."""
    degree = graph.degree.double().unsqueeze(-1)
    v = (x.double() / degree.sqrt()).clamp(min=0)
    mass = graph.communicator.sum((degree * v).sum(dim=0))
    wanted = torch.cat([volume, 1 - volume]) if task.multi_label else volume
    v = v * (wanted / torch.where(mass > 0, mass, 1.0))
    if task.multi_label:
        positive, negative = v.chunk(2, dim=1)
        total = positive + negative
        return torch.where(total > 0, positive / torch.where(total > 0, total, 1.0), 0.5)
    total = v.sum(dim=1, keepdim=True)
    return torch.where(total > 0, v / torch.where(total > 0, total, 1.0), 1 / v.size(1))
