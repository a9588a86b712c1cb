from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_positive
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.harmonic import harmonic_extension


@functional_transform("wnll")
class WNLL(EnergyModel):
    r"""The weighted non-local Laplacian from the `"Weighted Nonlocal Laplacian on Interpolation from Sparse Data"
    <https://link.springer.com/article/10.1007/s10915-017-0421-z>`_ paper (functional name: :obj:`wnll`).

    .. math::
        \sum_{j \in U} 2 w_{ij} (\mathbf{u}_i - \mathbf{u}_j) +
        \sum_{j \in L} \left( 1 + \frac{n}{m} \right) w_{ij} (\mathbf{u}_i - \mathbf{y}_j) = 0, \qquad i \in U,

    where :math:`m` of the :math:`n` nodes are labelled: :class:`~tg_crepe.Harmonic` with edges towards a label
    :math:`(1 + n/m)/2` times as strong, so that a few labels are not ignored. :math:`n` counts the nodes that labels
    reach. A finding of multi-label data has its own :math:`m`.

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
        return solve_wnll(task, self.tol)

    def __repr__(self) -> str:
        return model_repr(self)


def solve_wnll(task: LabelTask, tol: float) -> Solution:
    """The weighted nonlocal Laplacian on a task, see :class:`WNLL`."""
    return harmonic_extension(task, (1 + task.graph.total_nodes / task.known_count) / 2, tol)
