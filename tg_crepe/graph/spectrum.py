from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import weighted_sum
from tg_crepe.graph.sparse import SharedMatrix, normalised_adjacency

#: Lanczos steps between two looks at convergence.
_CHECK_EVERY = 10

#: The residual of a Ritz pair relative to its eigenvalue; the eigenvalue's own error is about the square of it.
_RESIDUAL = 3e-3

#: A new Lanczos direction shorter than this is rounding noise (the matrix has norm 1).
_NOISE = 1e-12


def smallest_eigenpairs(
    graph: CanonicalGraph, count: int, residual: float = _RESIDUAL, max_steps: int = 400
) -> tuple[Tensor, Tensor]:
    r"""The smallest eigenvalues of :math:`I - S`, :math:`S = D^{-1/2} W D^{-1/2}`, and their eigenvectors.

    The kernel is known (:math:`D^{1/2} \mathbf{1}` on every connected component), so it is left out of a Lanczos
    iteration with full re-orthogonalisation from a fixed start. Ritz values never lie below the eigenvalues they stand
    for. SciPy's solver knows neither the graph's device nor its parts, and :func:`torch.lobpcg` takes several times as
    many products.

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
    volume = _volumes(graph)
    known = min(count, graph.num_components)
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
    steps = min(graph.total_nodes - graph.num_components, count + max_steps)
    values, vectors = _lanczos(graph, count, steps, residual)
    return (1 - values).clamp(min=0), vectors


def without_kernel(graph: CanonicalGraph) -> Callable[[Tensor], Tensor]:
    r"""The projection that removes :math:`D^{1/2} \mathbf{1}` of every component, the kernel of :math:`I - S`.

    It maps a vector of shape :obj:`[num_nodes]`, or the columns of :obj:`[num_nodes, num_columns]`, in any precision.
    """
    component = graph.component
    root = graph.degree.double().sqrt()
    volume = _volumes(graph)
    unit = root / volume.sqrt()[component]  # of unit norm on every component

    def project(x: Tensor) -> Tensor:
        mode = unit.to(x.dtype).view(-1, *[1] * (x.dim() - 1))
        if volume.numel() == 1 and x.dim() == 2:  # one component: a sum is quicker than adding row by row
            return x - mode * weighted_sum(unit, x, graph.communicator).to(x.dtype)
        along = x.new_zeros(volume.numel(), *x.shape[1:]).index_add_(0, component, mode * x)
        return x - mode * graph.communicator.sum(along)[component]

    return project


def _volumes(graph: CanonicalGraph) -> Tensor:
    """The sum of the degrees of every component."""
    root = graph.degree.double().sqrt()
    return graph.communicator.sum(root.new_zeros(graph.num_components).index_add_(0, graph.component, root.square()))


def _lanczos(graph: CanonicalGraph, wanted: int, steps: int, residual: float) -> tuple[Tensor, Tensor]:
    """The ``wanted`` largest Ritz pairs of S without those of the kernel of I − S, largest first."""
    matrix, project = SharedMatrix(normalised_adjacency(graph).double(), graph), without_kernel(graph)
    communicator = graph.communicator
    generator = torch.Generator().manual_seed(0)
    basis = graph.degree.new_empty(steps, graph.num_nodes, dtype=torch.float64)
    alpha, beta = basis.new_zeros(steps), basis.new_zeros(steps)

    def orthogonal(r: Tensor, step: int) -> Tensor:
        """The part of ``r`` that is new after ``step`` basis vectors."""
        for _ in range(2):  # twice is enough to keep the basis orthogonal to machine precision
            r = project(r - basis[:step].t() @ communicator.sum(basis[:step] @ r))
        return r

    def size(r: Tensor) -> Tensor:
        return r.norm() if communicator.world_size == 1 else communicator.sum(r.square().sum()).sqrt()

    for step in range(steps):
        if step == 0 or beta[step - 1] == 0:
            r = orthogonal(_random(graph, generator), step)
            length = size(r)
        basis[step] = r / length
        r = matrix @ basis[step]
        alpha[step] = communicator.sum(basis[step] @ r)
        r = orthogonal(r, step + 1)
        # Noise means that the basis spans an invariant subspace; a fresh vector finds what lies outside of it, the
        # copies of a repeated eigenvalue for one.
        length = size(r)
        beta[step] = torch.where(length > _NOISE, length, 0.0)
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


def _random(graph: CanonicalGraph, generator: torch.Generator) -> Tensor:
    """One random number per node, the same for a node whichever process holds it."""
    number = graph.communicator.number
    if number is None:
        return torch.randn(graph.num_nodes, generator=generator, dtype=torch.float64).to(graph.edge_weight.device)
    own = number[: graph.num_nodes]
    largest = own.max() if own.numel() else own.new_tensor(-1)
    count = int(graph.communicator.max(largest)) + 1
    return torch.randn(count, generator=generator, dtype=torch.float64).to(own.device)[own]
