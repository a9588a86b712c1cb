from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._sums import inner, norm, squared_distance
from tg_crepe.energy.constraint import Constraint
from tg_crepe.graph.communicator import ALONE, Communicator


@dataclass(frozen=True)
class InnerProblem:
    r"""One outer step of the ratio flow as a convex problem (eq. `func_2`).

    .. math::
        \min_{\mathbf{u}} P(\mathbf{u}) = \frac{1}{2\delta t} \|\mathbf{u} - \mathbf{u}_k\|^2
        - \langle \mathbf{c}, \mathbf{u} \rangle + \|K\mathbf{u}\|_1 + \chi_C(\mathbf{u}), \qquad
        c^l = R(u_k^l) (q_k^l - \tilde q_k^l),

    where :math:`\delta t` is the time step, :math:`C` the constraint set, and the linear term comes from the ratio and
    the subgradient of :math:`H` at :math:`\mathbf{u}_k`.

    Args:
        u_prev (torch.Tensor): :math:`\mathbf{u}_k`, of shape :obj:`[num_nodes, num_classes]`.
        linear (torch.Tensor): :math:`\mathbf{c}`, of the same shape.
        time_step (float): :math:`\delta t > 0`.
        constraint (Constraint): The set :math:`C`.
        over (Communicator, optional): What connects the processes that hold other nodes.
            (default: one process holds all)
    """

    u_prev: Tensor
    linear: Tensor
    time_step: float
    constraint: Constraint
    over: Communicator = ALONE

    def smooth_part(self, u: Tensor) -> Tensor:
        r""":math:`\frac{1}{2\delta t} \|\mathbf{u} - \mathbf{u}_k\|^2 - \langle \mathbf{c}, \mathbf{u} \rangle`, a
        scalar in double precision.
        """
        distance = squared_distance(u, self.u_prev, self.over)
        return distance / (2 * self.time_step) - inner(self.linear, u, self.over)

    def lagrangian_minimiser(self, divergence: Tensor) -> Tensor:
        r""":math:`\mathbf{u}(\mathbf{z}) = \mathrm{proj}_C(\mathbf{u}_k + \delta t (\mathbf{c} - K^*\mathbf{z}))`.

        Args:
            divergence (torch.Tensor): :math:`K^*\mathbf{z}`, of shape :obj:`[num_nodes, num_classes]`.
        """
        return self.constraint.project(self.u_prev + self.time_step * (self.linear - divergence))

    def dual_value(self, divergence: Tensor) -> Tensor:
        r"""The lower bound :math:`D(\mathbf{z})` of the optimum, for any :math:`\|\mathbf{z}\|_\infty \leq 1`.

        .. math::
            D(\mathbf{z}) = \frac{1}{2\delta t} \|\mathbf{u}(\mathbf{z}) - \mathbf{u}_k\|^2
            - \langle \mathbf{c}, \mathbf{u}(\mathbf{z}) \rangle + \langle \mathbf{u}(\mathbf{z}), K^*\mathbf{z} \rangle

        Args:
            divergence (torch.Tensor): :math:`K^*\mathbf{z}`, of shape :obj:`[num_nodes, num_classes]`.
        """
        u = self.lagrangian_minimiser(divergence)
        return self.smooth_part(u) + inner(u, divergence, self.over)


@dataclass(frozen=True)
class Certificate:
    r"""What is known about a pair :math:`(\mathbf{u}, \mathbf{z})`.

    Args:
        energy (torch.Tensor): :math:`J(u^l)` of every class in double precision, of shape :obj:`[num_classes]`.
        primal (torch.Tensor): :math:`P(\mathbf{u})`, a scalar in double precision.
        dual (torch.Tensor): :math:`D(\mathbf{z}) \leq \min P`.
        residual (torch.Tensor): The KKT residual, the larger of
            :math:`\|\mathbf{u} - \mathbf{u}(\mathbf{z})\| / \|\mathbf{u}\|` and
            :math:`(J(\mathbf{u}) - \langle K\mathbf{u}, \mathbf{z} \rangle) / J(\mathbf{u})`.
    """

    energy: Tensor
    primal: Tensor
    dual: Tensor
    residual: Tensor

    @property
    def gap(self) -> Tensor:
        r""":math:`P(\mathbf{u}) - D(\mathbf{z})`, a bound of the suboptimality, and
        :math:`\|\mathbf{u} - \mathbf{u}^*\|^2 \leq 2\,\delta t` times it.
        """
        return self.primal - self.dual


def certify(problem: InnerProblem, u: Tensor, energies: Tensor, divergence: Tensor) -> Certificate:
    r"""Primal value, dual value and KKT residual of a feasible pair.

    Args:
        problem (InnerProblem): The problem.
        u (torch.Tensor): A point of :math:`C`, of shape :obj:`[num_nodes, num_classes]`.
        energies (torch.Tensor): :math:`J(u^l)` of every class in double precision, of shape :obj:`[num_classes]`.
        divergence (torch.Tensor): :math:`K^*\mathbf{z}` with :math:`\|\mathbf{z}\|_\infty \leq 1`.
    """
    energy = energies.sum()
    minimiser = problem.lagrangian_minimiser(divergence)
    tiny = torch.finfo(torch.float64).tiny
    slackness = (energy - inner(u, divergence, problem.over)) / energy.clamp(min=tiny)
    stationarity = squared_distance(u, minimiser, problem.over).sqrt() / norm(u, problem.over).clamp(min=tiny)
    return Certificate(
        energy=energies,
        primal=problem.smooth_part(u) + energy,
        dual=problem.dual_value(divergence),
        residual=torch.maximum(stationarity, slackness),
    )
