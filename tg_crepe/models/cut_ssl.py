from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count, check_positive
from tg_crepe.graph.reductions import safe_divide
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import resolve_volume
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.solvers.conjugate_gradient import CGResult, conjugate_gradient
from tg_crepe.solvers.trace import Status, Trace

#: The weight of the penalty: the linear systems have eigenvalues between 1 − s and 3 − s, and with half of it the
#: iteration circles around the vertices of the simplex once the problem is concave.
_PENALTY = 1.0

#: Conjugate gradients per step, from the last solution: one takes more steps, and more do not save any.
_INNER = 2

#: The start need not be solved well, and need not be at all where conjugate gradients crawl.
_START_TOL, _START_LIMIT = 1e-3, 500

#: The relative residual of the linear systems beside the tolerance of the whole.
_RESIDUAL = 1e-3


@functional_transform("cut_ssl")
class CutSSL(EnergyModel):
    r"""The smallest cut between classes of given sizes, from the `"Continuous Partitioning for Graph-Based
    Semi-Supervised Learning" <https://openreview.net/forum?id=hCOuip5Ona>`_ paper (functional name: :obj:`cut_ssl`).

    .. math::
        \min_X\ \tfrac{1}{2} \langle X, (L_{UU} - s D_U) X \rangle - \langle X, W_{UL} Y \rangle \quad \text{s.t. }
        X \mathbf{1} = \mathbf{1},\ X^\top \mathbf{1} = \mathbf{m},\ X \geq 0,

    where :math:`U` are the unlabelled nodes, :math:`Y` the one-hot labels and :math:`\mathbf{m}` the numbers of
    unlabelled nodes that the classes are to get (``bind_volume``). With :math:`s = 0` it is convex. The concave part
    changes the energy of whole labels by a constant, and drives :math:`X` to them: from :math:`s = 2` on every minimum
    is one. The solutions for growing :math:`s` are followed by the alternating direction method of multipliers,

    .. math::
        X \leftarrow \arg\min_{X \mathbf{1} = \mathbf{1},\, X^\top \mathbf{1} = \mathbf{m}}
        E(X) + \tfrac{\rho}{2} \| X - T + Z \|_D^2, \qquad
        T \leftarrow (X + Z)_+, \qquad Z \leftarrow Z + X - T,

    from the solution without :math:`X \geq 0` (Laplace learning with a shift per class). It ends in a
    local minimum, with very few labels sometimes a poor one. Penalty and concavity are in units of the degree, so
    nothing depends on the scale of the weights. A finding of multi-label data is a cut of its own, in
    :math:`0 \leq x \leq 1` with :math:`\mathbf{1}^\top x = m`.

    Args:
        concavity (sequence, optional): The values of :math:`s`, one after the other, below 1.
            (default: :obj:`(0.0, 0.1)`, those of the authors' example)
        max_steps (sequence, optional): The limit of steps for each of them. (default: :obj:`(100, 400)`, likewise)
        tol (float, optional): The change of a step and the distance :math:`X - T`, relative to the distance of
            :math:`T` from the mean of its columns. (default: :obj:`1e-3`)
        **options: Those of :class:`EnergyModel`; ``bind_volume`` is :obj:`"labels"` unless it is given.
    """

    distributed = False

    def __init__(
        self,
        concavity: Sequence[float] = (0.0, 0.1),
        max_steps: Sequence[int] = (100, 400),
        tol: float = 1e-3,
        **options: Unpack[ModelOptions],
    ) -> None:
        options.setdefault("bind_volume", "labels")
        super().__init__(**options)
        if self.bind_volume is None:
            raise ValueError("'bind_volume' must be given, got None: the sizes of the classes are constraints")
        try:
            concavity, max_steps = tuple(concavity), tuple(max_steps)
        except TypeError:
            raise ValueError(
                f"'concavity' and 'max_steps' must be sequences of the same length, got {concavity} and {max_steps}"
            ) from None
        if not concavity or not all(isinstance(s, float | int) and 0 <= s < _PENALTY for s in concavity):
            raise ValueError(f"'concavity' must hold numbers in [0, {_PENALTY:g}), one at least, got {concavity}")
        if len(max_steps) != len(concavity):
            raise ValueError(f"'max_steps' must hold a limit for each of {concavity}, got {max_steps}")
        for limit in max_steps:
            check_count("max_steps", limit)
        check_positive("tol", tol)
        self.concavity = concavity
        self.max_steps = max_steps
        self.tol = tol

    def _solve(self, task: LabelTask) -> Solution:
        assert self.bind_volume is not None  # checked at construction
        cut = _Cut(task, resolve_volume("bind_volume", self.bind_volume, task), _RESIDUAL * self.tol)
        trace, status, number = Trace(), "converged", 0
        target = cut.start()
        shift, x = torch.zeros_like(target), target
        for concavity, limit in zip(self.concavity, self.max_steps, strict=True):
            step = cut.step(concavity, x)
            status = "step_limit"
            for _ in range(limit):
                number += 1
                x = step(target - shift)
                before, target = target, cut.clamp(x + shift)
                shift = shift + (x - target)
                spread = (cut.free * (target - cut.share)).norm()
                change, gap = (float(safe_divide(d.norm(), spread, 0.0)) for d in (target - before, x - target))
                trace.append(step=number, concavity=concavity, change=change, gap=gap)
                if max(change, gap) <= self.tol:
                    status = "converged"
                    break
        # Beyond the bounds the multipliers tell nodes apart that are as sure of their class as can be.
        score = cut.known + x + shift
        found: Status = "converged" if status == "converged" else "step_limit"
        return Solution(cut.known + target, score - 0.5 if task.multi_label else score, trace, found)

    def __repr__(self) -> str:
        return model_repr(self, concavity=self.concavity, max_steps=self.max_steps)


class _Cut:
    """The quadratic program of a task: its operator at free entries, its constraints, and a step of the method."""

    def __init__(self, task: LabelTask, volume: Tensor, tol: float) -> None:
        self._tol = tol
        dtype, self._graph, self._exclusive = task.sign.dtype, task.graph, not task.multi_label
        self._degree = task.graph.degree.unsqueeze(-1)
        self.known = (task.sign > 0).to(dtype)
        self.free = (task.sign == 0).to(dtype) if task.multi_label else (~task.labelled).to(dtype).unsqueeze(-1)
        size = self.free.double().sum(dim=0)  # for exclusive classes the same set of nodes
        wanted = (volume * task.graph.total_nodes - task.positive_count).clamp(min=0)
        if self._exclusive:
            wanted = wanted * safe_divide(size, wanted.sum(), 0.0)
        self._wanted = torch.minimum(wanted, size)
        #: What every free entry of a column is on average.
        self.share = safe_divide(self._wanted, size, 0.0).to(dtype)
        self._source = self.free * task.graph.multiply(self.known)

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point with entries that may be a share of a node."""
        return x.clamp(min=0) if self._exclusive else x.clamp(0, 1)

    def start(self) -> Tensor:
        """The solution for s = 0 without bounds, within them."""
        found = self._solver(0.0)(self._source, None, _START_TOL, _START_LIMIT).x
        one = self._solver(0.0)(self.free, None, _START_TOL, _START_LIMIT).x
        return self.clamp(self._feasible(found, one))

    def step(self, concavity: float, x: Tensor) -> Callable[[Tensor], Tensor]:
        """The minimiser of the energy and the penalty with given sums, as a function of the point that it is near."""
        solve = self._solver(_PENALTY - concavity)
        one = solve(self.free, None, self._tol, _START_LIMIT).x
        # x² + (1 − x)² is what a finding has in the place of a row of squares: a linear part beside the square.
        linear = self._source if self._exclusive else self._source - self.free * (concavity / 2) * self._degree
        last = x

        def minimise(near: Tensor) -> Tensor:
            nonlocal last
            last = solve(linear + self.free * _PENALTY * self._degree * near, last, self._tol, _INNER).x
            return self._feasible(last, one)

        return minimise

    def _solver(self, extra: float) -> Callable[[Tensor, Tensor | None, float, int], CGResult]:
        """Solves with L + extra · D at free entries."""
        diagonal = (1 + extra) * self._degree

        def operator(x: Tensor) -> Tensor:
            return self.free * (diagonal * x - self._graph.multiply(x))

        def solve(rhs: Tensor, x0: Tensor | None, tol: float, limit: int) -> CGResult:
            return conjugate_gradient(operator, rhs, diagonal.view(-1), tol=tol, max_iterations=limit, x0=x0)

        return solve

    def _feasible(self, x: Tensor, one: Tensor) -> Tensor:
        """Adds the multipliers that give rows and columns their sums, which is exact: a multiplier of the rows is any
        vector that all columns share, one of a column a multiple of ``one``, the operator's solution for ones."""
        if self._exclusive:
            x = x + self.free * ((1 - x.sum(dim=1, keepdim=True)) / x.size(1))
        missing = self._wanted - x.sum(dim=0, dtype=torch.float64)
        return x + one * safe_divide(missing, one.sum(dim=0, dtype=torch.float64), 0.0).to(x.dtype)
