from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count, check_positive
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.harmonic import harmonic_extension
from tg_crepe.solvers.clamped_variation import minimise_variation, oscillating_variation

#: The residual of the harmonic start; a better one saves no iterations.
_START_TOL = 1e-3

#: Iterations of the published scheme.
_PUBLISHED_STEPS = 100


@functional_transform("sparse_lp")
class SparseLP(EnergyModel):
    r"""Sparse label propagation from the `"Semi-Supervised Learning via Sparse Label Propagation"
    <https://arxiv.org/abs/1612.01414>`_ paper (functional name: :obj:`sparse_lp`).

    .. math::
        \min_{u^l} \sum_{i < j} w_{ij} |u_i^l - u_j^l| \quad \text{s.t. } u_i^l = y_i^l \text{ at labelled nodes},

    for every class :math:`l` on its own, where :math:`y` are the one-hot labels: the smallest cut between the labels of
    a class and all others. It is solved to a duality gap, from the harmonic solution. With few labels the smallest
    cut often just isolates them: then no class claims the other nodes, and a tie goes to the class of lowest number. An
    optimum need not be unique. A finding of multi-label data is the cut between its known positives and negatives.

    Args:
        tol (float, optional): The duality gap of every class, relative to its energy. (default: :obj:`1e-5`, below
            which hardly a label changes)
        max_iterations (int, optional): The limit of primal–dual iterations. (default: :obj:`10000`)
        as_published (bool, optional): Whether to take the 100 steps of the GraphLearning package instead, whose steps
            are twice too long to converge (status :obj:`"step_limit"`); to compare with. (default: :obj:`False`)
        **options: Those of :class:`EnergyModel`.
    """

    extension = "median"
    distributed = False

    def __init__(
        self,
        tol: float = 1e-5,
        max_iterations: int = 10_000,
        as_published: bool = False,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        check_positive("tol", tol)
        check_count("max_iterations", max_iterations)
        self.tol = tol
        self.max_iterations = max_iterations
        self.as_published = as_published

    def _solve(self, task: LabelTask) -> Solution:
        if self.as_published:
            result = oscillating_variation(task.graph, task.sign, _PUBLISHED_STEPS)
        else:
            start = task.u0
            if start is None:
                start = harmonic_extension(task, task.sign.new_ones(()), _START_TOL).u
            result = minimise_variation(task.graph, task.sign, start, self.tol, self.max_iterations)
        score = result.u - 0.5 if task.multi_label else result.u
        return Solution(result.u, score, result.trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self, tol=self.tol, as_published=self.as_published)
