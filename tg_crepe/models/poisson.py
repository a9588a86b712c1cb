from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_positive
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.solvers.resolvent import resolvent


@functional_transform("poisson")
class Poisson(EnergyModel):
    r"""Poisson learning from the `"Poisson Learning: Graph Based Semi-Supervised Learning at Very Low Label Rates"
    <https://proceedings.mlr.press/v119/calder20a.html>`_ paper (functional name: :obj:`poisson`).

    .. math::
        L \mathbf{u} = \sum_{j \in \mathcal{L}} \delta_j (\mathbf{y}_j - \bar{\mathbf{y}}), \qquad
        \sum_i d_i \mathbf{u}_i = 0, \qquad L = D - W,

    where :math:`\mathbf{y}_j` are the one-hot labels and :math:`\bar{\mathbf{y}}` their mean. On a disconnected graph
    the mean and the second condition are taken on every component, since :math:`L` has a kernel on each: a source with
    another sum has no solution. Values have either sign and the class is :math:`\arg\max_l u^l`, without the paper's
    factors for class sizes (see ``bind_volume``). A class without a label in a component is never chosen there before
    one that has some. In a component whose labels are all of one class the source vanishes: every node there gets that
    class. A finding of multi-label data is the class :math:`u^l > 0` of two, with its own known nodes.

    Args:
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        **options: Those of :class:`EnergyModel`.
    """

    def __init__(
        self,
        tol: float = 1e-6,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        check_positive("tol", tol)
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        return solve_poisson(task, self.tol)

    def __repr__(self) -> str:
        return model_repr(self)


def solve_poisson(task: LabelTask, tol: float = 1e-6) -> Solution:
    """Poisson learning on a task, see :class:`Poisson`."""
    component = task.graph.component
    known, positive = (_total(x.double(), task.graph) for x in (task.sign != 0, task.sign > 0))
    mean = positive / known.clamp(min=1)
    # L is singular and its slowest modes decide: where clusters hang together by a weak edge, rounding in single
    # precision drowns them.
    graph = task.graph.with_weight(task.graph.edge_weight.double())
    degree = graph.degree.unsqueeze(-1)
    # L = D^½ (I − S) D^½; conjugate gradients from zero stay in the range of I − S.
    result = resolvent(graph, poisson_source(task) / degree.sqrt(), 1.0, tol)
    u = result.x / degree.sqrt()
    u = u - (_total(degree * u, graph) / _total(degree, graph))[component]

    size = graph.communicator.max(u.abs().max() if u.numel() else u.new_zeros(()))
    size = torch.where(size > 0, size, 1.0)
    if task.multi_label:
        alone, only = (known > 0) & ((positive == 0) | (positive == known)), 2 * mean - 1
    else:
        alone, only = (positive == known).any(dim=1, keepdim=True), mean - 1 / task.num_classes
    u = torch.where(alone[component], size * only[component], u)
    score = u
    if not task.multi_label:
        score = torch.where((positive > 0)[component], u, u.amin(dim=1, keepdim=True))
    return Solution(u.to(task.sign.dtype), score, result.trace, result.status)


def poisson_source(task: LabelTask) -> Tensor:
    r"""The source :math:`\sum_j \delta_j (\mathbf{y}_j - \bar{\mathbf{y}})`, whose sum on every component is zero, in
    double precision, of shape :obj:`[num_nodes, num_classes]`.
    """
    component = task.graph.component
    known, positive = (task.sign != 0).double(), (task.sign > 0).double()
    mean = _total(positive, task.graph) / _total(known, task.graph).clamp(min=1)
    return known * (positive - mean[component])


def _total(x: Tensor, graph: CanonicalGraph) -> Tensor:
    """The sum of every column over every component, of shape :obj:`[num_components, num_columns]`."""
    return graph.communicator.sum(x.new_zeros(graph.num_components, x.size(1)).index_add_(0, graph.component, x))
