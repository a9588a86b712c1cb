from __future__ import annotations

import math

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
    root = math.sqrt((1 + alpha) / (1 - alpha))
    products = math.ceil(math.log(2 / tol) / math.log((root + 1) / (root - 1)))
    x, r, d = source.clone(), source.clone(), source.clone()
    factor = alpha
    for _ in range(products):
        r = matrix.addmm(r, d, alpha=alpha).sub_(d)
        following = 1 / (2 / alpha - factor)
        d.mul_(following * factor).add_(r, alpha=2 * following / alpha)
        x.add_(d)
        factor = following
    return x
