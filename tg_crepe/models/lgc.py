from __future__ import annotations

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_choice, check_positive
from tg_crepe.inference.rate import bounded_rate, screening_rate
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import row_shares
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.solvers.resolvent import resolvent


@functional_transform("lgc")
class LGC(EnergyModel):
    r"""Local and global consistency from the `"Learning with Local and Global Consistency"
    <https://proceedings.neurips.cc/paper/2003/hash/87682805257e619d49b8e0dfdc14affa-Abstract.html>`_ paper
    (functional name: :obj:`lgc`).

    .. math::
        (I - \alpha S) \mathbf{u} = Y, \qquad S = D^{-1/2} W D^{-1/2},

    where :math:`Y` has a one at the class of every labelled node and zeros elsewhere. A finding of multi-label data is
    solved as two classes, known positive and known negative. GraphLearning calls this method `randomwalk`.

    With ``balanced`` every column of :math:`Y` is divided by its number of labels, as in `"Label Propagation for Deep
    Semi-supervised Learning" <https://arxiv.org/abs/1904.04717>`_, so that a class with many labels does not outweigh
    one with few.

    Args:
        alpha (float or str, optional): :math:`\alpha \in (0, 1)`, or :obj:`"auto"`: :math:`1 / (1 + x)` with the
            :func:`~tg_crepe.inference.rate.screening_rate` :math:`x` of the graph and its labels, as in the start of
            :class:`~tg_crepe.CrepePropagation`. (default: :obj:`0.99`, the value of the paper)
        balanced (bool, optional): Whether every class has a source of total one. (default: :obj:`False`)
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        **options: Those of :class:`EnergyModel`.
    """

    def __init__(
        self,
        alpha: float | str = 0.99,
        balanced: bool = False,
        tol: float = 1e-6,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        if isinstance(alpha, str):
            check_choice("alpha", alpha, ["auto"])
        else:
            check_alpha(alpha)
        check_positive("tol", tol)
        self.alpha = alpha
        self.balanced = balanced
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        source = task.sources
        if self.balanced:
            source = source / task.graph.communicator.sum(source.sum(dim=0))
        alpha = 1 / (1 + bounded_rate(screening_rate(task))) if isinstance(self.alpha, str) else self.alpha
        result = resolvent(task.graph, source, alpha, self.tol)
        return Solution(*scores(result.x, task), result.trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self, alpha=self.alpha, balanced=self.balanced)


def check_alpha(alpha: float) -> None:
    """Raise unless the walk goes on with a probability strictly between 0 and 1."""
    check_positive("alpha", alpha)
    if alpha >= 1:
        raise ValueError(f"'alpha' must lie in (0, 1), got {alpha}")


def scores(x: Tensor, task: LabelTask) -> tuple[Tensor, Tensor]:
    """Class functions and scores from non-negative evidence, one column per source."""
    x = x.clamp(min=0)  # the solution is non-negative; what is below zero is rounding
    share = row_shares(x, task.multi_label)
    return (share, share - 0.5) if task.multi_label else (x, share)
