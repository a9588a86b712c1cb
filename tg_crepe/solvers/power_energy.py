from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import safe_divide

#: Edges whose differences are held at a time.
_EDGES_AT_A_TIME = 1 << 18

#: A difference this small is none: it says nothing about a label, and rounding is not far below.
INVISIBLE = 1e-9


@dataclass(frozen=True)
class PowerPoint:
    r"""What is known of a point, in the units of its :class:`PowerEnergy`.

    Args:
        energy (torch.Tensor): The energy of every column, of shape :obj:`[num_columns]`.
        gradient (torch.Tensor): Its gradient at free entries and 0 elsewhere, of shape
            :obj:`[num_nodes, num_columns]`.
        gap (torch.Tensor): A bound of how far the energy is from the smallest, relative to it, of shape
            :obj:`[num_columns]`.
        residual (torch.Tensor): The largest imbalance of a free node: the gradient relative to the sum of the absolute
            flows that it consists of, of shape :obj:`[num_columns]`.
    """

    energy: Tensor
    gradient: Tensor
    gap: Tensor
    residual: Tensor


class PowerEnergy:
    r"""The energy of differences to a power, of every column, with known values held.

    .. math::
        E(u) = \sum_{e = (i, j)} w_{ij}\, \varphi\left(\frac{u_i - u_j}{m}\right), \qquad
        \varphi(s) = \begin{cases} |s|^p / p & |s| \geq c \\
        c^{p - 2} s^2 / 2 + (1/p - 1/2)\, c^p & |s| < c, \end{cases}

    where :math:`m` is the largest difference of the column at the point given first, so that no power overflows, and
    :math:`c = 0` for :math:`p \geq 2`. For :math:`p < 2` the curvature of :math:`|s|^p` at 0 is infinite, and
    :math:`c` is set so that :math:`E` exceeds the plain energy by a tenth of ``tol`` at most.

    The gap: the flow :math:`z = \varphi'(Ku)` of any :math:`u` gives a lower bound of the smallest energy, as the
    values of the optimum lie between 0 and 1 (see :func:`~tg_crepe.solvers.clamped_variation.minimise_variation`), and

    .. math::
        E(u) - \min E \leq \sum_{i \text{ free}} \left( u_i g_i - \min(0, g_i) \right)
        + \sum_{|s_e| < c} w_e (1/p - 1/2)\, c^p, \qquad g = \nabla E(u).

    Args:
        graph (CanonicalGraph): The graph.
        free (torch.Tensor): Which entries may vary, bool of shape :obj:`[num_nodes, num_columns]`.
        p (float): The power, above 1.
        u (torch.Tensor): A point that sets the units, in double precision, of shape
            :obj:`[num_nodes, num_columns]`.
        tol (float): The relative gap that must stay visible.
    """

    def __init__(self, graph: CanonicalGraph, free: Tensor, p: float, u: Tensor, tol: float) -> None:
        self.graph, self.free, self.p = graph, free, p
        largest = torch.stack([size.amax(dim=0) for _, _, _, size in self._sizes(u)]).amax(dim=0)
        self.scale = torch.where(largest > INVISIBLE, largest, 1.0)
        self.cap = torch.zeros_like(self.scale)
        if p < 2:
            total = graph.edge_weight.double().sum()
            powers = torch.zeros_like(self.scale)
            for _, _, weight, size in self._sizes(u):
                powers += (weight * (size / self.scale).pow_(p)).sum(dim=0)
            # The energy falls from here on: half of what it is now leaves room for that.
            self.cap = (0.5 * 0.1 * tol * powers / total / (1 - p / 2)).pow(1 / p)
            self.cap = self.cap.clamp(min=torch.finfo(torch.float64).eps ** 2)

    def _sizes(self, u: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """First nodes, second nodes, weights as a column and absolute differences, a slice of the edges at a time."""
        slices = (array.split(_EDGES_AT_A_TIME) for array in (*self.graph.edge_index, self.graph.edge_weight))
        for first, second, weight in zip(*slices, strict=True):
            yield first, second, weight.double().unsqueeze(-1), (u[first] - u[second]).abs_()

    def evaluate(self, u: Tensor) -> PowerPoint:
        """Energy, gradient and how far from the optimum a point is at most.

        Args:
            u (torch.Tensor): The point, in double precision, of shape :obj:`[num_nodes, num_columns]`.
        """
        energy, slack = torch.zeros(2, u.size(1), dtype=u.dtype, device=u.device)
        gradient, through = torch.zeros(2, *u.shape, dtype=u.dtype, device=u.device)
        excess = (1 / self.p - 0.5) * self.cap.pow(self.p)
        least = (INVISIBLE / self.scale).pow(self.p - 1)
        for first, second, weight, size in self._sizes(u):
            size /= self.scale
            flow = torch.maximum(size, self.cap).pow_(self.p - 2).mul_(size)
            if self.p < 2:
                low = size < self.cap
                energy += (weight * torch.where(low, flow * size / 2 + excess, flow * size / self.p)).sum(dim=0)
                slack += (weight * low).sum(dim=0) * excess
            else:
                energy += (weight * flow * size).sum(dim=0) / self.p
            amount = weight * torch.maximum(flow, least)
            through.index_add_(0, first, amount).index_add_(0, second, amount)
            flow = torch.copysign(flow.mul_(weight), u[first] - u[second])
            gradient.index_add_(0, first, flow).index_add_(0, second, flow, alpha=-1)
        gradient = torch.where(self.free, gradient, 0.0)
        gap = (u * gradient - gradient.clamp(max=0)).sum(dim=0) / self.scale + slack
        gap = safe_divide(gap, energy)
        residual = (gradient.abs() / through.clamp(min=torch.finfo(u.dtype).tiny)).amax(dim=0)
        return PowerPoint(energy, gradient / self.scale, gap, residual)

    def curvature(self, u: Tensor, careful: Tensor) -> Tensor:
        r"""The weights :math:`w_e \varphi''(s)` of the Newton system, of shape :obj:`[num_columns, num_edges]`.

        Args:
            u (torch.Tensor): The point, in double precision, of shape :obj:`[num_nodes, num_columns]`.
            careful (torch.Tensor): The columns that get :math:`w_e \varphi'(s) / s` instead, bool of shape
                :obj:`[num_columns]`. For :math:`p < 2` these belong to a parabola above the energy, so that the full
                step cannot fail (iteratively re-weighted least squares).
        """
        parts = []
        for _, _, weight, size in self._sizes(u):
            size /= self.scale
            bend = torch.maximum(size, self.cap).pow_(self.p - 2)
            bend *= torch.where(careful | (size < self.cap), 1.0, self.p - 1)
            parts.append((weight * bend / self.scale.square()).t())
        return torch.cat(parts, dim=1)

    def in_units_of_u(self, energy: Tensor) -> Tensor:
        r"""An energy of this scale as :math:`\sum w |u_i - u_j|^p / p`."""
        return energy * self.scale.pow(self.p)

    def typical_difference(self, energy: Tensor, weight: Tensor) -> Tensor:
        """The difference that gives the energy when it lies across edges of this total ``weight``."""
        return self.scale * (self.p * energy / weight).pow(1 / self.p)
