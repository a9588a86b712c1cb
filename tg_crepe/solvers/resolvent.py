from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.conjugate_gradient import CGResult, conjugate_gradient
from tg_crepe.typing import OptTensor


def resolvent(graph: CanonicalGraph, source: Tensor, alpha: float, tol: float, x0: OptTensor = None) -> CGResult:
    r"""Solves :math:`(I - \alpha S) X = Y` for all columns of ``source``, of shape :obj:`[num_nodes, num_columns]`."""
    matrix = graph.normalised
    # The condition number is at most (1 + α)/(1 − α); CG needs about its root times log(2/tol) iterations.

    def operator(x: Tensor) -> Tensor:
        return matrix.addmm(x, x, alpha=-alpha)

    return conjugate_gradient(operator, source, tol=tol, max_iterations=10_000, x0=x0, communicator=graph.communicator)


def loose_resolvent(graph: CanonicalGraph, source: Tensor, alpha: float, tol: float) -> Tensor:
    r"""About :math:`(I - \alpha S)^{-1} Y` by a Chebyshev polynomial in :math:`S`.

    The eigenvalues of :math:`I - \alpha S` lie in :math:`[1 - \alpha, 1 + \alpha]`, so that

    .. math::
        2 \left( \frac{\sqrt{\kappa} - 1}{\sqrt{\kappa} + 1} \right)^k \leq \mathrm{tol}, \qquad
        \kappa = \frac{1 + \alpha}{1 - \alpha},

    gives the number of products :math:`k`. Unlike conjugate gradients it is linear in ``source``, asks for no inner
    product, and rounding does not grow in it: another order of the nodes, or several processes, give the same.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        source (torch.Tensor): :math:`Y`, of shape :obj:`[num_nodes, num_columns]`.
        alpha (float): :math:`\alpha \in (0, 1)`.
        tol (float): The relative residual.
    """
    matrix = graph.normalised
    return _semi_iterate(lambda r, d: matrix.addmm(r, d, alpha=alpha), source, alpha, tol)


def _semi_iterate(add_product: Callable[[Tensor, Tensor], Tensor], source: Tensor, alpha: float, tol: float) -> Tensor:
    """Chebyshev's semi-iteration; ``add_product(r, d)`` is r + α S d."""
    x, r, d = source.clone(), source.clone(), source.clone()
    factor = alpha
    for _ in range(_products(alpha, tol)):
        r = add_product(r, d).sub_(d)
        following = 1 / (2 / alpha - factor)
        d.mul_(following * factor).add_(r, alpha=2 * following / alpha)
        x.add_(d)
        factor = following
    return x


def _products(alpha: float, tol: float) -> int:
    """How many products a loose solve takes."""
    root = math.sqrt((1 + alpha) / (1 - alpha))
    return math.ceil(math.log(2 / tol) / math.log((root + 1) / (root - 1)))


def loose_resolvents(graph: CanonicalGraph, source: Tensor, alphas: Sequence[float], tol: float) -> list[Tensor]:
    r"""The answers of :func:`loose_resolvent` for several :math:`\alpha`, with as many products as the slowest takes.

    .. math::
        X_\alpha = \sum_k a_k(\alpha)\, T_k(S)\, Y,

    where the Chebyshev polynomials :math:`T_k` are the same for all of them, and the coefficients are those of the
    polynomial that the iteration would be.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        source (torch.Tensor): :math:`Y`, of shape :obj:`[num_nodes, num_columns]`.
        alphas (sequence): The :math:`\alpha \in (0, 1)`.
        tol (float): The relative residual.
    """
    series = [_coefficients(alpha, tol) for alpha in alphas]
    longest = max(map(len, series))
    found = [source * factors[0] for factors in series]
    before, now = source, source
    for term in range(1, longest):
        if term == 1:
            now = graph.normalised @ source
        else:
            before, now = now, graph.normalised.addmm(before, now, beta=-1, alpha=2)
        for x, factors in zip(found, series, strict=True):
            if term < len(factors):
                x.add_(now, alpha=factors[term])
    return found


def _coefficients(alpha: float, tol: float) -> list[float]:
    """The polynomial of the semi-iteration in Chebyshev's basis, from its values at as many nodes as it has terms."""
    count = _products(alpha, tol) + 1
    angle = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count)
    node = angle.cos()
    value = _semi_iterate(lambda r, d: r + alpha * node * d, torch.ones_like(node), alpha, tol)
    terms = (torch.arange(count, dtype=torch.float64).unsqueeze(1) * angle).cos() @ value * (2 / count)
    terms[0] /= 2
    return [float(term) for term in terms]
