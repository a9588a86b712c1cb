from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import check_count, check_positive
from tg_crepe._memory import give_back
from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk, row_ranges
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import column_dots, flat
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
    if diagonal is not None and diagonal.numel() not in (rhs.size(0), rhs.numel()):
        raise ValueError(
            f"'diagonal' must have a number per row, or per row and column, of {tuple(rhs.shape)}, "
            f"got shape {tuple(diagonal.shape)}"
        )

    size = column_dots(rhs, rhs, communicator).sqrt()
    x = torch.zeros_like(rhs) if x0 is None else x0 * (size > 0)
    r = rhs.clone() if x0 is None else rhs - operator(x)
    safe_size = torch.where(size > 0, size, torch.ones_like(size))
    p = torch.empty_like(r)
    _turn(p, r, diagonal, None)
    *along, square = communicator.sums(*([] if diagonal is None else [column_dots(r, p)]), column_dots(r, r))
    rho = along[0] if along else square
    residual = square.sqrt() / safe_size
    iterations = 0
    active = residual > tol
    while bool(active.any()) and iterations < max_iterations:
        ap = operator(p)
        curvature = column_dots(p, ap, communicator)
        step = torch.where(active & (curvature > 0), rho / torch.where(curvature > 0, curvature, 1.0), 0.0)
        *along, square = communicator.sums(*_advance(x, p, r, ap, diagonal, step.to(x.dtype)))
        rho_next = along[0] if along else square
        turn = torch.where(active & (rho > 0), rho_next / torch.where(rho > 0, rho, 1.0), 0.0)
        _turn(p, r, diagonal, turn.to(x.dtype))
        rho = rho_next
        residual = torch.where(active, square.sqrt() / safe_size, residual)
        active = active & (residual > tol)
        iterations += 1
    del p, r
    give_back(x.nbytes)
    return CGResult(x, residual, iterations, "step_limit" if bool(active.any()) else "converged")


def _advance(x: Tensor, p: Tensor, r: Tensor, ap: Tensor, diagonal: OptTensor, step: Tensor) -> tuple[Tensor, ...]:
    """x ← x + s p and r ← r − s A p, in place; ⟨r, h⟩ of every column where something preconditions, then ‖r‖²."""
    if not _is_compiled(x, p, r, ap):
        x.addcmul_(p, step)
        r.addcmul_(ap, step, value=-1)
        square = column_dots(r, r)
        return (square,) if diagonal is None else (column_dots(r, r / _as_columns(diagonal)), square)
    from tg_crepe.solvers.kernels.conjugate_gradient import advance

    ranges = row_ranges(*x.shape)
    sums = np.zeros((2, len(ranges), x.size(1)))
    arrays = (flat(x), flat(p), flat(r), flat(ap), _divisors(x, diagonal), step.numpy())
    for_each_chunk(lambda chunk: advance(*ranges[chunk], *arrays, sums[0, chunk], sums[1, chunk]), len(ranges))
    along, square = torch.from_numpy(sums.sum(axis=1))
    return (square,) if diagonal is None else (along, square)


def _turn(p: Tensor, r: Tensor, diagonal: OptTensor, share: OptTensor) -> None:
    """p ← h + t p, in place; p ← h without ``share``."""
    if share is None or not _is_compiled(p, r):
        h = r if diagonal is None else r / _as_columns(diagonal)
        p.copy_(h) if share is None else p.mul_(share).add_(h)
        return
    from tg_crepe.solvers.kernels.conjugate_gradient import turn

    ranges = row_ranges(*p.shape)
    arrays = (flat(p), flat(r), _divisors(p, diagonal), share.numpy())
    for_each_chunk(lambda chunk: turn(*ranges[chunk], *arrays), len(ranges))


def _is_compiled(*tensors: Tensor) -> bool:
    """Whether compiled code may read and write them."""
    first = tensors[0]
    alike = all(x.is_contiguous() and x.dtype == first.dtype and x.shape == first.shape for x in tensors)
    plain = alike and first.numel() > 0 and first.dtype in (torch.float32, torch.float64)
    return plain and first.device.type == "cpu" and available("numba")


def _divisors(x: Tensor, diagonal: OptTensor) -> np.ndarray:
    return np.empty(0, dtype=x.numpy().dtype) if diagonal is None else flat(diagonal)


def _as_columns(diagonal: Tensor) -> Tensor:
    return diagonal.unsqueeze(-1) if diagonal.dim() == 1 else diagonal
