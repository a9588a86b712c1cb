from __future__ import annotations

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from tg_crepe._checks import check_positive
from tg_crepe.flow.conjugate_gradient import conjugate_gradient
from tg_crepe.flow.trace import Trace
from tg_crepe.models.base import EnergyModel, model_repr
from tg_crepe.models.lgc import scores, sources
from tg_crepe.models.task import LabelTask, Solution


@functional_transform("harmonic")
class Harmonic(EnergyModel):
    r"""Harmonic functions from the `"Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions"
    <https://dl.acm.org/doi/10.5555/3041838.3041953>`_ paper (functional name: :obj:`harmonic`).

    .. math::
        L_{UU} \mathbf{u}_U = W_{UL} Y, \qquad L = D - W,

    where :math:`U` are the unlabelled nodes and :math:`Y` the one-hot labels. Every value lies between 0 and 1 and a
    row sums to one. A finding of multi-label data is solved as two classes, with its own set of known nodes.

    Args:
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        soft_label (str, optional): See :class:`EnergyModel`. (default: :obj:`"calibrated"`)
        symmetrize (str, optional): See :class:`EnergyModel`. (default: :obj:`"max"`)
    """

    def __init__(self, tol: float = 1e-6, soft_label: str = "calibrated", symmetrize: str = "max") -> None:
        super().__init__(soft_label, symmetrize)
        check_positive("tol", tol)
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        weight, degree = task.graph.adjacency, task.graph.degree.unsqueeze(-1)
        fixed = sources(task)
        # Findings have their own sets of free nodes, the same for the known positives and the known negatives.
        free = (task.sign == 0).to(task.sign.dtype).repeat(1, fixed.size(1) // task.num_classes)

        def operator(x: Tensor) -> Tensor:
            return free * (degree * x - weight @ x)  # `x` is zero where it is not free

        result = conjugate_gradient(
            operator, free * (weight @ fixed), task.graph.degree, tol=self.tol, max_iterations=10_000
        )
        trace = Trace()
        trace.append(step=result.iterations, residual=result.residual)
        return Solution(*scores(fixed + free * result.x, task), trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self)
