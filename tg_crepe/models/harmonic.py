from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_choice, check_positive
from tg_crepe.inference.rate import bounded_rate, screening_rate
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.lgc import scores
from tg_crepe.solvers.banded import PATIENCE, BandedSystem
from tg_crepe.solvers.conjugate_gradient import CGResult, conjugate_gradient


@functional_transform("harmonic")
class Harmonic(EnergyModel):
    r"""Harmonic functions from the `"Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions"
    <https://dl.acm.org/doi/10.5555/3041838.3041953>`_ paper (functional name: :obj:`harmonic`).

    .. math::
        L_{UU} \mathbf{u}_U = W_{UL} Y, \qquad L = D - W,

    where :math:`U` are the unlabelled nodes and :math:`Y` the one-hot labels. Every value lies between 0 and 1 and a
    row sums to one. A finding of multi-label data is solved as two classes, with its own set of known nodes.

    Args:
        label_weight (float or str, optional): How many times as strong an edge between a labelled and an unlabelled
            node is made (also in :math:`D`), relative to an edge between two unlabelled ones; see
            :class:`~tg_crepe.WNLL`. :obj:`"auto"` is :math:`\max(x n / m, 1)` for :math:`m` labels among :math:`n`
            nodes: a walk then ends at a label about as often as the diffusion of rate :math:`x`
            (:func:`~tg_crepe.inference.rate.screening_rate`) forgets. (default: :obj:`1.0`)
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        **options: Those of :class:`EnergyModel`.
    """

    def __init__(
        self,
        label_weight: float | str = 1.0,
        tol: float = 1e-6,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        if isinstance(label_weight, str):
            check_choice("label_weight", label_weight, ["auto"])
        else:
            check_positive("label_weight", label_weight)
        check_positive("tol", tol)
        self.label_weight = label_weight
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        label_weight = _absorbing_weight(task) if isinstance(self.label_weight, str) else self.label_weight
        return harmonic_extension(task, task.sign.new_tensor(label_weight), self.tol)

    def __repr__(self) -> str:
        return model_repr(self, label_weight=self.label_weight)


def _absorbing_weight(task: LabelTask) -> float:
    """The label weight at which a walk is absorbed at the screening rate."""
    known = task.graph.communicator.sum((task.sign != 0).any(dim=1).sum())
    return max(bounded_rate(screening_rate(task)) * task.graph.total_nodes / float(known), 1.0)


def harmonic_extension(task: LabelTask, label_weight: Tensor, tol: float) -> Solution:
    r"""Extends the labels so that every free node has the weighted mean of its neighbours.

    .. math::
        \sum_{j \in U} w_{ij} (\mathbf{u}_i - \mathbf{u}_j) + c \sum_{j \in L} w_{ij} (\mathbf{u}_i - \mathbf{y}_j) = 0,
        \qquad i \in U.

    Args:
        task (LabelTask): The graph and the labels.
        label_weight (torch.Tensor): :math:`c`, one number, or one for every class or finding, of shape
            :obj:`[num_classes]`.
        tol (float): The relative residual of the solver.
    """
    graph, fixed, label_weight = task.graph, task.sources, label_weight.to(task.sign.dtype)
    if task.multi_label:  # findings have their own sets of known nodes, the same for present and absent
        known = (task.sign != 0).to(fixed.dtype).repeat(1, 2)
        label_weight = label_weight.expand(task.num_classes).repeat(2)
    else:
        known = task.labelled.to(fixed.dtype).unsqueeze(-1)
    free = 1 - known
    # Summed, not the degree with something taken away: it stays above zero for any label weight.
    diagonal = graph.multiply(free) + label_weight * graph.multiply(known)

    def operator(x: Tensor) -> Tensor:
        return graph.add_product(diagonal * x, x, alpha=-1).mul_(free)  # `x` is zero where it is not free

    rhs = free * label_weight * graph.multiply(fixed)
    result = conjugate_gradient(
        operator, rhs, diagonal, tol=tol, max_iterations=PATIENCE, communicator=graph.communicator
    )
    if result.status != "converged":
        exact = _solve_directly(task, diagonal, known, rhs)
        if exact is not None:
            residual = (rhs - operator(exact)).norm(dim=0) / rhs.norm(dim=0).clamp(min=torch.finfo(rhs.dtype).tiny)
            result = CGResult(exact, residual, result.iterations, "converged")
        else:
            result = conjugate_gradient(
                operator, rhs, diagonal, tol=tol, max_iterations=5_000, x0=result.x, communicator=graph.communicator
            )
    return Solution(*scores(fixed + free * result.x, task), result.trace, result.status)


def _solve_directly(task: LabelTask, diagonal: Tensor, known: Tensor, rhs: Tensor) -> Tensor | None:
    """The extension of a long thin graph, where conjugate gradients crawl; :obj:`None` for any other."""
    system = BandedSystem(task.graph)
    if not system.fits:
        return None
    found = []
    width = rhs.size(1) // known.size(1)  # columns that share a set of known nodes
    for number, held in enumerate(known.bool().t()):
        between = ~held[task.graph.edge_index].any(dim=0)
        own = diagonal if diagonal.dim() == 1 or diagonal.size(1) == 1 else diagonal[:, number]
        part = system.solve(
            torch.where(held, 1.0, own.reshape(-1).double()),
            task.graph.edge_weight * between,
            rhs[:, number * width : (number + 1) * width],
        )
        if part is None:
            return None
        found.append(part)
    return torch.cat(found, dim=1).to(rhs.dtype)
