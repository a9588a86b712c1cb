from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.flow.conjugate_gradient import CGResult, conjugate_gradient
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.spectrum import normalised_adjacency
from tg_crepe.models.task import LabelTask
from tg_crepe.typing import OptTensor


def resolvent(graph: CanonicalGraph, source: Tensor, alpha: float, tol: float, x0: OptTensor = None) -> CGResult:
    r"""Solves :math:`(I - \alpha S) X = Y` for all columns of ``source``, of shape :obj:`[num_nodes, num_columns]`."""
    matrix, over = normalised_adjacency(graph), graph.communicator
    # The condition number is at most (1 + α)/(1 − α); CG needs about its root times log(2/tol) iterations.

    def operator(x: Tensor) -> Tensor:
        return torch.addmm(x, matrix, over.halo(x), alpha=-alpha)

    return conjugate_gradient(operator, source, tol=tol, max_iterations=10_000, x0=x0, over=over)


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
