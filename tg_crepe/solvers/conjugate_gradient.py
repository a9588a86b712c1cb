from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._checks import check_count, check_positive
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import column_dots
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import OptTensor


@dataclass
class CGResult:
    """The solution of a block of linear systems.

    Args:
        x (torch.Tensor): The solutions, of shape :obj:`[num_nodes, num_columns]`.
        residual (torch.Tensor): :math:`\\|b - Ax\\| / \\|b\\|` of every column, of shape :obj:`[num_columns]`.
        iterations (int): Products with the matrix.
        status (str): :obj:`"converged"` or :obj:`"step_limit"`.
    """

    x: Tensor
    residual: Tensor
    iterations: int
    status: Status

    @property
    def trace(self) -> Trace:
        """One row: the products with the matrix, and the residual of every column."""
        trace = Trace()
        trace.append(step=self.iterations, residual=self.residual)
        return trace


@torch.no_grad()
def conjugate_gradient(
    operator: Callable[[Tensor], Tensor],
    rhs: Tensor,
    diagonal: OptTensor = None,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    x0: OptTensor = None,
    communicator: Communicator = ALONE,
) -> CGResult:
    r"""Solves :math:`A x^l = b^l` for all columns at once, :math:`A` symmetric and positive definite.

    Every column has its own steps and stops on its own, when :math:`\|b^l - A x^l\| \leq \mathrm{tol}\, \|b^l\|`; a
    zero column is solved by zero and never disturbs the others.

    Args:
        operator (callable): Maps :math:`X \mapsto AX`, shape :obj:`[num_nodes, num_columns]` to itself. It may act on
            each column in its own way, as long as every column's :math:`A` is symmetric and positive definite on the
            range of ``rhs``.
        rhs (torch.Tensor): :math:`B`, of shape :obj:`[num_nodes, num_columns]`.
        diagonal (torch.Tensor, optional): The diagonal of :math:`A`, of shape :obj:`[num_nodes]`, or
            :obj:`[num_nodes, num_columns]` where the columns differ, for Jacobi preconditioning.
            (default: :obj:`None`, none)
        tol (float, optional): The relative residual. (default: :obj:`1e-6`)
        max_iterations (int, optional): The limit. (default: :obj:`1000`)
        x0 (torch.Tensor, optional): Where to start, of the shape of ``rhs``. (default: :obj:`None`, at zero)
        communicator (Communicator, optional): What connects the processes that hold other rows.
            (default: one process holds all)
    """
    check_positive("tol", tol)
    check_count("max_iterations", max_iterations)

    def precondition(r: Tensor) -> Tensor:
        if diagonal is None:
            return r
        return r / (diagonal.unsqueeze(-1) if diagonal.dim() == 1 else diagonal)

    def squares(r: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """⟨r, h⟩ and ‖r‖² of every column over all processes."""
        if diagonal is not None:
            both = communicator.sums(column_dots(r, h), column_dots(r, r))
            return both[0], both[1]
        square = column_dots(r, r, communicator)
        return square, square

    size = column_dots(rhs, rhs, communicator).sqrt()
    x = torch.zeros_like(rhs) if x0 is None else x0 * (size > 0)
    r = rhs.clone() if x0 is None else rhs - operator(x)
    safe_size = torch.where(size > 0, size, torch.ones_like(size))
    h = precondition(r)
    p = h.clone()
    rho, square = squares(r, h)
    residual = square.sqrt() / safe_size
    iterations = 0
    active = residual > tol
    while bool(active.any()) and iterations < max_iterations:
        ap = operator(p)
        curvature = column_dots(p, ap, communicator)
        step = torch.where(active & (curvature > 0), rho / torch.where(curvature > 0, curvature, 1.0), 0.0)
        x.addcmul_(p, step.to(x.dtype))
        r.addcmul_(ap, step.to(x.dtype), value=-1)
        h = precondition(r)
        rho_next, square = squares(r, h)
        turn = torch.where(active & (rho > 0), rho_next / torch.where(rho > 0, rho, 1.0), 0.0)
        p.mul_(turn.to(x.dtype)).add_(h)
        rho = rho_next
        residual = torch.where(active, square.sqrt() / safe_size, residual)
        active = active & (residual > tol)
        iterations += 1
    return CGResult(x, residual, iterations, "step_limit" if bool(active.any()) else "converged")
