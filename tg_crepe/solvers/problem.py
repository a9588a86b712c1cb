from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.energy.constraint import Constraint
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import inner, squared_distance


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
        communicator (Communicator, optional): What connects the processes that hold other nodes.
            (default: one process holds all)
    """

    u_prev: Tensor
    linear: Tensor
    time_step: float
    constraint: Constraint
    communicator: Communicator = ALONE

    def own_terms(self, u: Tensor) -> tuple[Tensor, Tensor]:
        r"""What this process has of :math:`\|\mathbf{u} - \mathbf{u}_k\|^2` and of
        :math:`\langle \mathbf{c}, \mathbf{u} \rangle`, scalars in double precision.
        """
        return squared_distance(u, self.u_prev), inner(self.linear, u)

    def smooth_part(self, distance: Tensor, push: Tensor) -> Tensor:
        r""":math:`\frac{1}{2\delta t} \|\mathbf{u} - \mathbf{u}_k\|^2 - \langle \mathbf{c}, \mathbf{u} \rangle` from
        the sums of :meth:`own_terms` over the processes.
        """
        return distance / (2 * self.time_step) - push

    def lagrangian_minimiser(self, divergence: Tensor) -> Tensor:
        r""":math:`\mathbf{u}(\mathbf{z}) = \mathrm{proj}_C(\mathbf{u}_k + \delta t (\mathbf{c} - K^*\mathbf{z}))`.

        Args:
            divergence (torch.Tensor): :math:`K^*\mathbf{z}`, of shape :obj:`[num_nodes, num_classes]`.
        """
        return self.constraint.project(self.u_prev + self.time_step * (self.linear - divergence))


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


def certify(problem: InnerProblem, u: Tensor, own_energy: Tensor, divergence: Tensor) -> Certificate:
    r"""Primal value, dual value and KKT residual of a feasible pair.

    .. math::
        D(\mathbf{z}) = \frac{1}{2\delta t} \|\mathbf{u}(\mathbf{z}) - \mathbf{u}_k\|^2
        - \langle \mathbf{c}, \mathbf{u}(\mathbf{z}) \rangle + \langle \mathbf{u}(\mathbf{z}), K^*\mathbf{z} \rangle
        \leq \min P \qquad \text{for any } \|\mathbf{z}\|_\infty \leq 1.

    Args:
        problem (InnerProblem): The problem.
        u (torch.Tensor): A point of :math:`C`, of shape :obj:`[num_nodes, num_classes]`.
        own_energy (torch.Tensor): What this process has of :math:`J(u^l)` of every class in double precision, of shape
            :obj:`[num_classes]`.
        divergence (torch.Tensor): :math:`K^*\mathbf{z}` with :math:`\|\mathbf{z}\|_\infty \leq 1`.
    """
    best = problem.lagrangian_minimiser(divergence)
    energies, along, apart, square, distance, push, best_distance, best_push, best_along = problem.communicator.sums(
        own_energy,
        inner(u, divergence),
        squared_distance(u, best),
        inner(u, u),
        *problem.own_terms(u),
        *problem.own_terms(best),
        inner(best, divergence),
    )
    energy = energies.sum()
    tiny = torch.finfo(torch.float64).tiny
    slackness = (energy - along) / energy.clamp(min=tiny)
    stationarity = apart.sqrt() / square.sqrt().clamp(min=tiny)
    return Certificate(
        energy=energies,
        primal=problem.smooth_part(distance, push) + energy,
        dual=problem.smooth_part(best_distance, best_push) + best_along,
        residual=torch.maximum(stationarity, slackness),
    )
