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


#: Graphs up to this size get the exact eigenvalue for their clock, larger ones an estimate.
_SMALL = 5000

#: The smallest rate of a clock; below it components are as good as separate.
_LEAST_RATE = 1e-4

#: The eigenvalues that the estimate damps, the degree of its polynomial, the dimensions that it spans at the most
#: (beyond two blocks), and the relative change at which it ends.
_DAMPED, _DEGREE, _DIMENSIONS, _SETTLED = (0.15, 2.0), 8, 160, 0.1


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


def clock_rate(graph: CanonicalGraph, index: int, block: Tensor) -> float:
    r"""The ``index``-th smallest eigenvalue of :math:`I - S`, to two significant digits and at least :math:`10^{-4}`.

    It sets how long a flow runs, for which 10 % is precise enough; rounded, the noise of the eigensolver (another
    order of nodes, another device) hardly ever reaches the result.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        index (int): Which eigenvalue, counted from 1.
        block (torch.Tensor): Where the search starts on a large graph: the labels as columns, of shape
            :obj:`[num_nodes, num_columns]` with at least ``index`` columns.
    """
    index = min(index, graph.num_nodes)
    if int(graph.component.max()) + 1 >= index:
        return _LEAST_RATE  # as many zeros as components
    if graph.num_nodes <= _SMALL:
        value = float(smallest_eigenpairs(graph, index, residual=1e-6)[0][-1])
    else:
        value = _krylov_estimate(normalised_adjacency(graph), index, block)
    if value <= _LEAST_RATE:
        return _LEAST_RATE
    return round(value, 1 - math.floor(math.log10(value)))


def _krylov_estimate(matrix: Tensor, index: int, block: Tensor) -> float:
    r"""The ``index``-th smallest eigenvalue of :math:`I - S` from above, to a few per cent.

    Rayleigh–Ritz on the span of :math:`B, p(S)B, p(S)^2 B, \dots`, where :math:`p` is a Chebyshev polynomial that damps
    the eigenvalues of :math:`I - S` in :math:`[0.15, 2]`. The labels excite just the slow modes that separate them, and
    a block of columns makes a product with the matrix cheap: a Lanczos iteration needs as many products with single
    vectors as this needs columns, and several times the orthogonalisation.
    """
    low, high = _DAMPED
    centre, radius = 1 - (low + high) / 2, (high - low) / 2

    def damp(x: Tensor) -> Tensor:
        before, now = x, torch.addmm(x, matrix, x, beta=-centre / radius, alpha=1 / radius)
        for _ in range(_DEGREE - 1):
            following = torch.addmm(before, matrix, now, beta=-1, alpha=2 / radius)
            before, now = now, following.sub_(now, alpha=2 * centre / radius)
        return now

    basis: list[Tensor] = []
    projected = block.new_zeros(0, 0, dtype=torch.float64)
    newest, value = block, math.inf
    while projected.size(0) < _DIMENSIONS + 2 * block.size(1):
        newest = _new_directions(damp(newest) if basis else newest, basis)
        if newest.size(1) == 0:
            break
        basis.append(newest)
        # The image of the basis is not kept: its products with the old blocks are those of the new ones, transposed.
        image = matrix @ newest
        column = torch.cat([(old.t() @ image).double() for old in basis])
        known = projected.size(0)
        projected = torch.nn.functional.pad(projected, (0, newest.size(1), 0, newest.size(1)))
        projected[:, known:], projected[known:, :known] = column, column[:known].t()
        ritz = 1 - torch.linalg.eigvalsh((projected + projected.t()) / 2).flip(0)
        previous, value = value, float(ritz[min(index, ritz.numel()) - 1])
        if previous - value <= _SETTLED * value:
            break
    return value


def _new_directions(x: Tensor, basis: list[Tensor]) -> Tensor:
    """Orthonormal columns that span what ``x`` adds to the blocks of ``basis``, by products of thin matrices alone."""
    for _ in range(2):  # the second round removes what rounding left of the first
        for block in basis:
            x = torch.addmm(x, block, block.t() @ x, alpha=-1)
        size, turn = torch.linalg.eigh((x.t() @ x).double())
        keep = size > 1e-6 * size[-1:].clamp(min=1e-30)
        x = x @ (turn[:, keep] / size[keep].sqrt()).to(x.dtype)
    return x
