from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph, sparse_csr

#: Lanczos steps between two looks at convergence.
_CHECK_EVERY = 10

#: The residual of a Ritz pair relative to its eigenvalue; the eigenvalue's own error is about the square of it.
_RESIDUAL = 3e-3

#: A new Lanczos direction shorter than this is rounding noise (the matrix has norm 1).
_NOISE = 1e-12


def normalised_adjacency(graph: CanonicalGraph) -> Tensor:
    r"""The symmetric :math:`S = D^{-1/2} W D^{-1/2}` as a sparse CSR tensor; a node without edges has a zero row."""
    adjacency = graph.adjacency
    scale = torch.where(graph.degree > 0, graph.degree.rsqrt(), torch.zeros_like(graph.degree))
    crow, col = adjacency.crow_indices(), adjacency.col_indices()
    row = torch.repeat_interleave(torch.arange(graph.num_nodes, device=col.device), crow.diff())
    return sparse_csr(crow, col, adjacency.values() * scale[row] * scale[col], graph.num_nodes)


def smallest_eigenpairs(
    graph: CanonicalGraph, count: int, residual: float = _RESIDUAL, max_steps: int = 400
) -> tuple[Tensor, Tensor]:
    r"""The smallest eigenvalues of :math:`I - S`, :math:`S = D^{-1/2} W D^{-1/2}`, and their eigenvectors.

    The kernel is known (:math:`D^{1/2} \mathbf{1}` on every connected component), so it is left out of a Lanczos
    iteration with full re-orthogonalisation from a fixed start. Ritz values never lie below the eigenvalues they stand
    for. SciPy's solver would leave the graph's device, and :func:`torch.lobpcg` takes several times as many products.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        count (int): How many, at most :obj:`num_nodes`.
        residual (float, optional): Stop when the residual of every wanted pair is below this times its eigenvalue.
            (default: :obj:`3e-3`)
        max_steps (int, optional): The largest number of Lanczos steps beyond ``count``. (default: :obj:`400`)

    Returns:
        Ascending eigenvalues of shape :obj:`[count]` and eigenvectors of shape :obj:`[num_nodes, count]`, in double
        precision.
    """
    root = graph.degree.double().sqrt()
    component = graph.component
    num_components = int(component.max()) + 1
    volume = root.new_zeros(num_components).index_add_(0, component, root.square())

    known = min(count, num_components)
    kernel = torch.zeros(graph.num_nodes, known, dtype=torch.float64, device=root.device)
    for number in range(known):
        inside = component == number
        kernel[inside, number] = root[inside] / volume[number].sqrt()
    wanted = count - known
    if wanted == 0:
        return root.new_zeros(count), kernel

    def without_kernel(x: Tensor) -> Tensor:
        along = root.new_zeros(num_components).index_add_(0, component, root * x) / volume
        return x - root * along[component]

    steps = min(graph.num_nodes - num_components, wanted + max_steps)
    values, vectors = _lanczos(normalised_adjacency(graph).double(), without_kernel, wanted, steps, residual)
    return torch.cat([root.new_zeros(known), (1 - values).clamp(min=0)]), torch.cat([kernel, vectors], dim=1)


def _lanczos(
    matrix: Tensor, project: Callable[[Tensor], Tensor], wanted: int, steps: int, residual: float
) -> tuple[Tensor, Tensor]:
    """The ``wanted`` largest Ritz pairs of ``matrix`` on the range of ``project``, largest first."""
    n = matrix.size(0)
    generator = torch.Generator().manual_seed(0)
    basis = matrix.new_empty(steps, n, layout=torch.strided)
    alpha, beta = basis.new_zeros(steps), basis.new_zeros(steps)

    def orthogonal(r: Tensor, step: int) -> Tensor:
        """The part of ``r`` that is new after ``step`` basis vectors."""
        for _ in range(2):  # twice is enough to keep the basis orthogonal to machine precision
            r = project(r - basis[:step].t() @ (basis[:step] @ r))
        return r

    for step in range(steps):
        if step == 0 or beta[step - 1] == 0:
            r = orthogonal(torch.randn(n, generator=generator, dtype=torch.float64).to(matrix.device), step)
        basis[step] = r / r.norm()
        r = matrix @ basis[step]
        alpha[step] = basis[step] @ r
        r = orthogonal(r, step + 1)
        # Noise means that the basis spans an invariant subspace; a fresh vector finds what lies outside of it, the
        # copies of a repeated eigenvalue for one.
        beta[step] = torch.where(r.norm() > _NOISE, r.norm(), 0.0)
        last = step + 1 == steps
        if last or (step + 1 >= wanted and (step + 1) % _CHECK_EVERY == 0 and beta[step] > 0):
            tridiagonal = torch.diag(alpha[: step + 1])
            tridiagonal += torch.diag(beta[:step], 1) + torch.diag(beta[:step], -1)
            values, inner = torch.linalg.eigh(tridiagonal)
            values, inner = values.flip(0)[:wanted], inner.flip(1)[:, :wanted]
            error = beta[step] * inner[-1].abs()
            if last or bool((error <= residual * (1 - values)).all()):
                break
    return values, basis[: step + 1].t() @ inner


def clock_rate(graph: CanonicalGraph, index: int) -> float:
    r"""The ``index``-th smallest eigenvalue of :math:`I - S`, to two significant digits and at least :math:`10^{-4}`.

    It sets how long a flow runs, for which 10 % is precise enough; rounded, the noise of the eigensolver (another
    order of nodes, another device) does not reach the result.
    """
    value = float(smallest_eigenpairs(graph, min(index, graph.num_nodes))[0][-1])
    if value <= 1e-4:
        return 1e-4
    digits = 1 - math.floor(math.log10(value))
    return round(value, digits)
