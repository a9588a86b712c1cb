from __future__ import annotations

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
    rowptr, col, edge = graph.csr_pattern
    scale = torch.where(graph.degree > 0, graph.degree.rsqrt(), torch.zeros_like(graph.degree))
    first, second = graph.edge_index
    value = graph.edge_weight * scale[first] * scale[second]
    return sparse_csr(rowptr, col, value.index_select(0, edge), (graph.num_nodes, graph.num_nodes))


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

    values, vectors = smallest_positive_eigenpairs(graph, wanted, residual, max_steps)
    return torch.cat([root.new_zeros(known), values]), torch.cat([kernel, vectors], dim=1)


def smallest_positive_eigenpairs(
    graph: CanonicalGraph, count: int, residual: float = _RESIDUAL, max_steps: int = 400
) -> tuple[Tensor, Tensor]:
    """As :func:`smallest_eigenpairs`, without the zeros, of which there are as many as components."""
    num_components = int(graph.component.max()) + 1
    steps = min(graph.num_nodes - num_components, count + max_steps)
    matrix = normalised_adjacency(graph).double()
    values, vectors = _lanczos(matrix, without_kernel(graph), count, steps, residual)
    return (1 - values).clamp(min=0), vectors


def without_kernel(graph: CanonicalGraph) -> Callable[[Tensor], Tensor]:
    r"""The projection that removes :math:`D^{1/2} \mathbf{1}` of every component, the kernel of :math:`I - S`.

    It maps a vector of shape :obj:`[num_nodes]`, or the columns of :obj:`[num_nodes, num_columns]`, in any precision.
    """
    component = graph.component
    root = graph.degree.double().sqrt()
    volume = root.new_zeros(int(component.max()) + 1).index_add_(0, component, root.square())
    unit = root / volume.sqrt()[component]  # of unit norm on every component

    def project(x: Tensor) -> Tensor:
        mode = unit.to(x.dtype).view(-1, *[1] * (x.dim() - 1))
        along = x.new_zeros(volume.numel(), *x.shape[1:]).index_add_(0, component, mode * x)
        return x - mode * along[component]

    return project


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
