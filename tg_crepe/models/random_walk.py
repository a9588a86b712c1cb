from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_positive
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.lgc import check_alpha, scores
from tg_crepe.solvers.resolvent import resolvent


@functional_transform("random_walk")
class RandomWalk(EnergyModel):
    r"""Lazy random walks from the `"Learning from Labeled and Unlabeled Data Using Random Walks"
    <https://link.springer.com/chapter/10.1007/978-3-540-28649-3_29>`_ paper (functional name: :obj:`random_walk`).

    .. math::
        (D - \alpha W) \mathbf{u} = Y,

    where :math:`Y` has a one at the class of every labelled node and zeros elsewhere: the class whose labels a walk is
    expected to visit most, if it goes on with probability :math:`\alpha` at every step. This is the unnormalised form.
    The symmetric one, :math:`(I - \alpha S) \mathbf{u} = Y`, is :class:`~tg_crepe.LGC`, and GraphLearning's
    `randomwalk` is exactly that, not this. A finding of multi-label data is solved as two classes.

    Args:
        alpha (float, optional): :math:`\alpha \in (0, 1)`. (default: :obj:`0.95`, the value of GraphLearning's walk,
            with which published comparisons were made)
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        **options: Those of :class:`EnergyModel`.
    """

    def __init__(
        self,
        alpha: float = 0.95,
        tol: float = 1e-6,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        check_alpha(alpha)
        check_positive("tol", tol)
        self.alpha = alpha
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        # D − αW = D^½ (I − αS) D^½
        root = task.graph.degree.sqrt().unsqueeze(-1)
        result = resolvent(task.graph, task.sources / root, self.alpha, self.tol)
        return Solution(*scores(result.x / root, task), result.trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self, alpha=self.alpha)
