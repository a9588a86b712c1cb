from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.column_laplacian import ColumnLaplacian
from tg_crepe.solvers.power_energy import INVISIBLE, PowerEnergy, PowerPoint
from tg_crepe.solvers.trace import Status, Trace

#: The factor between two powers on the way from 2: of p above 2, of p − 1 below.
_STRIDE = 1.5

#: The relative gap at which a power on the way is left.
_ROUGH = 1e-2

#: A Newton system is solved to this part of what is missing.
_FORCING = 0.1

#: Conjugate-gradient iterations of one Newton step; a step that ends there is still one of descent.
_CG_LIMIT = 5000

#: The line search ends where the slope has fallen to this part of the first one, or after so many trials.
_SLOPE, _TRIALS = 0.3, 20

#: By how much rounding may raise an energy, relative to it.
_ROUNDING = 1e-13

#: A step this short changes nothing that could be seen; what is left of the gap and the residual is rounding.
_SHORT = INVISIBLE / 100


@dataclass(frozen=True)
class PowerResult:
    r"""Where Newton's method ended.

    Args:
        u (torch.Tensor): The last point, between 0 and 1, in double precision, of shape
            :obj:`[num_nodes, num_columns]`.
        trace (Trace): One row a Newton step; see :func:`minimise_power`.
        status (str): :obj:`"converged"`, :obj:`"step_limit"` or :obj:`"stalled"` (no step lowered the energy).
    """

    u: Tensor
    trace: Trace
    status: Status


def minimise_power(graph: CanonicalGraph, sign: Tensor, p: float, tol: float, max_steps: int) -> PowerResult:
    r"""Minimises :math:`\sum_{e = (i, j)} w_{ij} |u_i - u_j|^p / p` of every column with known values held.

    Newton's method with a line search, along powers from 2 (the harmonic solution) to :math:`p`. Every step solves, for
    each column, a Laplace system whose weights are the curvature of the energy, :math:`(p - 1)\, w_{ij}
    |u_i - u_j|^{p - 2}`. It ends when, in every column, the duality gap is at most ``tol`` of the energy, and what
    flows into a free node and out of it (:math:`w_{ij} |u_i - u_j|^{p - 1}`) differs by at most ``tol`` of the sum. The
    second matters for large :math:`p`, where the energy hardly depends on values far from the labels.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        sign (torch.Tensor): What is known: :obj:`1`, :obj:`-1` (the value 0) or :obj:`0` (free), of shape
            :obj:`[num_nodes, num_columns]`.
        p (float): The power, above 1.
        tol (float): The tolerance above.
        max_steps (int): The limit of Newton steps.

    Returns:
        The point, and a trace with the columns ``step`` (Newton steps so far), ``p``, ``energy`` (of every column),
        ``gap`` and ``residual`` (the largest of a column) and ``cg_iterations`` (of the step that led there).
    """
    path = _NewtonPath(graph, sign, max_steps)
    with tqdm(total=max_steps, desc=f"p-Laplace, p = {p:g}", delay=3, disable=None, leave=False) as bar:
        for power in _powers(p):
            status = path.descend(power, tol if power == p else _ROUGH, power == p, bar)
            if status == "step_limit":
                break
    return PowerResult(path.u.clamp(0, 1), path.trace, status)


def _powers(p: float) -> list[float]:
    """The powers from 2 to ``p``; towards 1 it is the distance from 1 that counts."""
    powers, offset = [2.0], 0 if p > 2 else 1
    stride = _STRIDE if p > 2 else 1 / _STRIDE
    while p != 2 and abs(p - powers[-1]) > abs((powers[-1] - offset) * (stride - 1)):
        powers.append(offset + (powers[-1] - offset) * stride)
    return powers if p == 2 else [*powers, p]


class _NewtonPath:
    """The point that is moved from power to power, and what is remembered on the way."""

    def __init__(self, graph: CanonicalGraph, sign: Tensor, max_steps: int) -> None:
        self.graph, self.free, self.max_steps = graph, sign == 0, max_steps
        self.system = ColumnLaplacian(graph, self.free)
        self.u = (sign > 0).double()
        self.trace = Trace()
        self.steps = 0
        degree = graph.degree.double()
        # The energy of the labels alone, up to a factor: what a vanishing energy is measured by.
        self.cut = torch.minimum(degree @ (sign > 0).double(), degree @ (sign < 0).double())
        self.constant = torch.zeros_like(self.cut, dtype=torch.bool)

    def descend(self, p: float, tol: float, last: bool, bar: tqdm) -> Status:
        """Newton's method at one power; nodes have to be in balance only at the last one."""
        energy = PowerEnergy(self.graph, self.free, p, self.u, tol)
        point, iterations = energy.evaluate(self.u), 0
        stuck, careful = torch.zeros(2, self.constant.numel(), dtype=torch.bool, device=self.u.device)
        while True:
            if p == 2:  # a column without any difference, and then it is the answer for every power
                self.constant = energy.typical_difference(point.energy, self.cut) <= INVISIBLE
            gap, residual = (torch.where(self.constant, 0.0, value) for value in (point.gap, point.residual))
            self.trace.append(
                step=self.steps,
                p=torch.tensor(p, dtype=torch.float64),
                energy=energy.in_units_of_u(point.energy),
                gap=gap.max(),
                residual=residual.max(),
                cg_iterations=iterations,
            )
            missing = torch.maximum(gap, residual) if last else gap
            active = (missing > tol) & ~stuck
            if not bool(active.any()):
                return "stalled" if bool((missing > tol).any()) else "converged"
            if self.steps == self.max_steps:
                return "step_limit"
            # The energy is quadratic at p = 2, and one system is all it takes.
            accuracy = _FORCING * (tol if p == 2 else min(_FORCING, float(missing[active].max())))
            rhs = -point.gradient * active
            weight = energy.curvature(self.u, careful)
            direction, iterations = self.system.solve(weight, rhs, accuracy, _CG_LIMIT)
            length, point = _line_search(energy, self.u, point, direction, active)
            step = length * direction
            self.u = self.u + step
            short = active & (step.abs().amax(dim=0) <= _SHORT)
            # Below 2 a full step may lead to where the energy has a kink; a careful one does not.
            stuck |= short & (careful | (p >= 2))
            careful = short & (p < 2)
            self.steps += 1
            bar.update()


def _line_search(
    energy: PowerEnergy, u: Tensor, point: PowerPoint, direction: Tensor, active: Tensor
) -> tuple[Tensor, PowerPoint]:
    """How far to go along ``direction`` for a flat slope and no higher energy, for every column, and what is there."""
    steep = (point.gradient * direction).sum(dim=0).abs()
    length, low = torch.ones_like(steep), torch.zeros_like(steep)
    high = torch.full_like(steep, torch.inf)
    trial = energy.evaluate(u + length * direction)
    for _ in range(_TRIALS):
        slope = (trial.gradient * direction).sum(dim=0)
        open_ = active & (slope.abs() > _SLOPE * steep)
        if not bool(open_.any()):
            break
        high = torch.where(open_ & (slope > 0), length, high)
        low = torch.where(open_ & (slope <= 0), length, low)
        length = torch.where(open_, torch.where(torch.isinf(high), 2 * length, (low + high) / 2), length)
        trial = energy.evaluate(u + length * direction)
    lower = active & (trial.energy <= point.energy * (1 + _ROUNDING))
    if not torch.equal(lower, active):
        length = torch.where(lower, length, 0.0)
        trial = energy.evaluate(u + length * direction)
    return length, trial
