from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count, check_positive
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.solvers.power_newton import minimise_power


@functional_transform("p_laplace")
class PLaplace(EnergyModel):
    r"""The variational :math:`p`-Laplacian (functional name: :obj:`p_laplace`).

    .. math::
        \min_{u^l} \frac{1}{p} \sum_{i < j} w_{ij} |u_i^l - u_j^l|^p \quad
        \text{s.t. } u_i^l = y_i^l \text{ at labelled nodes},

    for every class :math:`l` on its own, where :math:`y` are the one-hot labels; the weight stands before the power
    and is not raised to it. :math:`p = 2` is :class:`~tg_crepe.Harmonic` and :math:`p \to 1`
    :class:`~tg_crepe.SparseLP`, which is much quicker than a :math:`p` close to 1. A larger :math:`p`
    avoids the spikes that the harmonic solution has around a few labels. GraphLearning's `plaplace` is another method,
    the game-theoretic :math:`p`-Laplacian (a mean of the 2- and the infinity-Laplacian, :math:`p \geq 2`), which is not
    the gradient of an energy. A finding of multi-label data is solved between its known positives and negatives.

    Args:
        p (float, optional): The power, above 1. (default: :obj:`3.0`, with one label per class of scikit-learn's digits
            the best of 2, 2.5, 3, 4, 6 and 10; the more labels, the less it differs from 2)
        tol (float, optional): The duality gap relative to the energy, and the imbalance of a node relative to what
            flows through it; see :func:`~tg_crepe.solvers.power_newton.minimise_power`. (default: :obj:`1e-4`, below
            which hardly a label changes)
        max_steps (int, optional): The limit of Newton steps. (default: :obj:`500`)
        **options: Those of :class:`EnergyModel`.
    """

    distributed = False

    def __init__(
        self,
        p: float = 3.0,
        tol: float = 1e-4,
        max_steps: int = 500,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        check_positive("p", p)
        if p <= 1:
            raise ValueError(f"'p' must be above 1 (p = 1 is SparseLP), got {p}")
        check_positive("tol", tol)
        check_count("max_steps", max_steps)
        self.p = p
        self.tol = tol
        self.max_steps = max_steps

    def _solve(self, task: LabelTask) -> Solution:
        result = minimise_power(task.graph, task.sign, self.p, self.tol, self.max_steps)
        score = result.u - 0.5 if task.multi_label else result.u
        return Solution(result.u.to(task.sign.dtype), score, result.trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self, p=self.p)
