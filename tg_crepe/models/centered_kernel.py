from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_count, check_positive
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.solvers.conjugate_gradient import conjugate_gradient

#: Lanczos steps at most, steps between two looks at the residual, and the relative residual at the end; the
#: error of the eigenvalue is about the square of it.
_STEPS, _CHECK_EVERY, _RESIDUAL = 400, 10, 1e-6


@functional_transform("centered_kernel")
class CenteredKernel(EnergyModel):
    r"""The centred kernel method from the `"Consistent Semi-Supervised Graph Regularization for High Dimensional Data"
    <https://arxiv.org/abs/2006.07575>`_ paper (functional name: :obj:`centered_kernel`).

    .. math::
        \mathbf{u}_U = \frac{1}{\alpha} (P W P \mathbf{u})_U, \qquad \mathbf{u}_L = Y - \bar{Y}, \qquad
        P = I - \frac{1}{n} \mathbf{1} \mathbf{1}^\top, \qquad \alpha = c\, \|P W P\|_2,

    where :math:`Y` are the one-hot labels, :math:`\bar{Y}` their mean, and the class is :math:`\arg\max_l u^l`. With
    :math:`c > 1` the fixed point is unique; it is found as the linear system that it is, by conjugate gradients. The
    norm comes from a Lanczos iteration with a residual test. A finding of multi-label data is the class
    :math:`u^l > 0` of two, with its own known nodes.

    Args:
        scale (float, optional): :math:`c > 1`. (default: :obj:`1.05`, the value of GraphLearning)
        tol (float, optional): The relative residual of the solver. (default: :obj:`1e-6`)
        max_iterations (int, optional): The largest number of iterations of the solver. (default: :obj:`1000`)
        **options: Those of :class:`EnergyModel`.
    """

    distributed = False

    def __init__(
        self,
        scale: float = 1.05,
        tol: float = 1e-6,
        max_iterations: int = 1000,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        check_positive("scale", scale)
        if scale <= 1:
            raise ValueError(f"'scale' must be above 1, got {scale}")
        check_positive("tol", tol)
        check_count("max_iterations", max_iterations)
        self.scale = scale
        self.tol = tol
        self.max_iterations = max_iterations

    def _solve(self, task: LabelTask) -> Solution:
        known = (task.sign != 0).to(task.sign.dtype)
        positive = (task.sign > 0).to(task.sign.dtype)
        fixed = known * (positive - positive.sum(dim=0) / known.sum(dim=0))
        # Weights relative to the largest degree, so that their scale does not matter.
        graph = task.graph.with_weight(task.graph.edge_weight / task.graph.degree.max())
        kernel = _centred_kernel(graph.adjacency, self.scale)
        free = 1 - known
        result = conjugate_gradient(
            lambda x: x - free * kernel(x), free * kernel(fixed), tol=self.tol, max_iterations=self.max_iterations
        )
        u = fixed + result.x
        return Solution(u, u, result.trace, result.status)

    def __repr__(self) -> str:
        return model_repr(self, scale=self.scale)


def _centred_kernel(weight: Tensor, scale: float) -> Callable[[Tensor], Tensor]:
    """The product with PWP / α."""

    def product(x: Tensor, matrix: Tensor = weight) -> Tensor:
        y = matrix @ (x - x.mean(dim=0))
        return y - y.mean(dim=0)

    exact = weight.double()
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(weight.size(0), 1, generator=generator, dtype=torch.float64).to(weight.device)
    alpha = scale * spectral_norm(lambda x: product(x, exact), start)
    return lambda x: product(x) / alpha


def spectral_norm(product: Callable[[Tensor], Tensor], start: Tensor) -> float:
    r"""The largest absolute eigenvalue of a symmetric matrix, by a Lanczos iteration.

    A power iteration with a fixed number of steps falls short by per cents where many eigenvalues lie near the largest
    one. A Ritz value is the best of all polynomials, and its residual says when it is an eigenvalue. A random start has
    a part along every eigenvector, and the part along the largest one grows quickest.

    Args:
        product (callable): Maps :math:`x \mapsto Ax`, of shape :obj:`[num_nodes, 1]`.
        start (torch.Tensor): A random vector in double precision, of shape :obj:`[num_nodes, 1]`.
    """
    before, now = torch.zeros_like(start), start / start.norm()
    diagonal, beside = start.new_zeros(_STEPS), start.new_zeros(_STEPS)
    for step in range(_STEPS):
        image = product(now)
        diagonal[step] = (now * image).sum()
        image = image - diagonal[step] * now - (beside[step - 1] * before if step else 0)
        beside[step] = image.norm()
        exhausted = bool(beside[step] <= 1e-14 * torch.maximum(diagonal.abs(), beside).max())  # only rounding is left
        last = exhausted or step + 1 == _STEPS
        if last or (step + 1) % _CHECK_EVERY == 0:
            inner = torch.diag(diagonal[: step + 1])
            inner += torch.diag(beside[:step], 1) + torch.diag(beside[:step], -1)
            value, vector = torch.linalg.eigh(inner)
            largest = int(value.abs().argmax())
            residual = beside[step] * vector[-1, largest].abs()
            if last or bool(residual <= _RESIDUAL * value[largest].abs()):
                break
        before, now = now, image / beside[step]
    return float(value[largest].abs())
