from __future__ import annotations

import math

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.communicator import Communicator
from tg_crepe.graph.reductions import inner, plain_sum
from tg_crepe.graph.spectrum import without_kernel

#: The smallest value; below it components are as good as separate.
_LEAST = 1e-4

#: From where on the estimate damps eigenvalues, and the degree of its polynomial.
_DAMPED, _DEGREE = 0.15, 8

#: Blocks and dimensions (beyond two blocks) that it spans at most, and the relative change at which it ends. Eleven
#: blocks go eighty steps far from the labels: two moons need that, and weak islands are not found on the way.
_BLOCKS, _DIMENSIONS, _SETTLED = 11, 160, 0.01


def cluster_eigenvalue(graph: CanonicalGraph, index: int, block: Tensor) -> float:
    r"""The ``index``-th smallest eigenvalue of :math:`I - S` as far as labels excite it and take part in it, to two
    significant digits and at least :math:`10^{-4}`.

    All but one of the zeros that separate components bring are left out: what lies in another component is not in the
    way of a flow. Islands that hang on weak edges have eigenvalues near zero too, which say nothing of the classes. So
    a mode :math:`\psi_k` counts as much as labels take part in it,

    .. math::
        c_k = \min\left( 1, \frac{L}{m} \sum_{i=1}^m \min\left( 1, \sqrt{\frac{\mathrm{vol}}{L - 1}}\,
        |f_{ik} - \tilde f_k| \right) \right),

    where :math:`f_{ik}` are the values of :math:`d^{-1/2} \psi_k` at the :math:`m` labels and :math:`\tilde f_k` is
    their median. On one of :math:`L` equal classes such a mode is :math:`\sqrt{(L - 1)/\mathrm{vol}}` and more above
    its median, and it counts as one. The eigenvalue is where :math:`\sum_k c_k` reaches :math:`L - 1`.

    It sets how long a flow runs, for which 10 % is precise enough; rounded, the noise of the estimate (another
    order of nodes, another device) hardly ever reaches the result.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes.
        index (int): Which eigenvalue, counted from 1: the number :math:`L` of classes.
        block (torch.Tensor): Where the search starts: the labels as columns, of shape :obj:`[num_nodes, num_columns]`
            with at least ``index`` columns.
    """
    positive = min(index - 1, graph.total_nodes - graph.num_components)  # counted without the zeros
    if positive == 0:
        return _LEAST
    value = _krylov_estimate(graph, positive, block, _DAMPED)
    if value <= _LEAST or math.isinf(value):
        return _LEAST
    return round(value, 1 - math.floor(math.log10(value)))


def _krylov_estimate(graph: CanonicalGraph, index: int, block: Tensor, low: float) -> float:
    r"""Where the counts of the positive eigenvalues of :math:`I - S` add up to ``index``, from above, to a few per cent
    where it is small.

    Rayleigh–Ritz without the kernel on the span of :math:`B, p(S)B, p(S)^2 B, \dots`, where :math:`p` is a Chebyshev
    polynomial that damps the eigenvalues of :math:`I - S` between ``low`` and 2. The labels excite just the slow modes
    that separate them, and a block of columns makes a product with the matrix cheap: a Lanczos iteration needs as many
    products with single vectors as this needs columns, and several times the orthogonalisation.
    """
    matrix, project = graph.normalised, without_kernel(graph)
    communicator = graph.communicator
    centre, radius = 1 - (low + 2) / 2, (2 - low) / 2

    def damp(x: Tensor, image: Tensor) -> Tensor:
        before, now = x, image.sub_(x, alpha=centre).div_(radius)
        for _ in range(_DEGREE - 1):
            following = matrix.addmm(before, now, beta=-1, alpha=2 / radius)
            before, now = now, following.sub_(now, alpha=2 * centre / radius)
        return now

    # One piece of memory for the whole basis, a row per vector: all of it is one factor of a product, and many small
    # pieces would stay with the process after they are freed.
    rounds = min(-(-(_DIMENSIONS + 2 * block.size(1)) // block.size(1)), _BLOCKS)
    store = block.new_empty(rounds * block.size(1), block.size(0))
    starts = [0]  # where the blocks begin, and the next one
    labelled = (block != 0).any(dim=1)
    root = graph.degree[labelled].double().sqrt().unsqueeze(-1)
    volume = float(plain_sum(graph.degree, communicator))
    at_labels = root.new_zeros(root.size(0), 0)
    projected = block.new_zeros(0, 0, dtype=torch.float64)
    newest, image, now = block, block, (math.inf, math.inf)
    for number in range(rounds):
        start = starts[-1]
        newest = project(damp(newest, image) if number else newest)
        newest = _new_directions(newest, store[:start], starts[max(0, number - 2)], communicator)
        if newest.size(1) == 0:
            break
        starts.append(start + newest.size(1))
        store[start : starts[-1]] = newest.t()
        at_labels = torch.cat([at_labels, newest[labelled].double() / root], dim=1)
        # Only the newest image is kept: its products with the old blocks are those of theirs with the newest block.
        image = matrix @ newest
        column = communicator.sum((store[: starts[-1]] @ image).double())
        known = projected.size(0)
        projected = torch.nn.functional.pad(projected, (0, newest.size(1), 0, newest.size(1)))
        projected[:, known:], projected[known:, :known] = column, column[:known].t()
        ritz, turn = torch.linalg.eigh((projected + projected.t()) / 2)
        part = _taking_part(at_labels @ turn.flip(1), index + 1, volume, communicator)
        ritz = 1 - ritz.flip(0)
        # The counts change with the basis too: the value alone may stand still by chance.
        previous, now = now, (_counted(ritz, part, index), float(ritz[min(index, ritz.numel()) - 1]))
        if all(abs(before - value) <= _SETTLED * value for before, value in zip(previous, now, strict=True)):
            break
    return now[0]


def _taking_part(mode: Tensor, num_classes: int, volume: float, communicator: Communicator) -> Tensor:
    """What every mode counts, from its values at the labels that this process holds."""
    columns = mode.size(1)
    mode = communicator.gather(mode.reshape(-1))[0].view(-1, columns)
    size = (mode - mode.quantile(0.5, dim=0)).abs() * math.sqrt(volume / (num_classes - 1))
    return (num_classes * size.clamp(max=1).mean(dim=0)).clamp(max=1)


def _counted(value: Tensor, part: Tensor, index: int) -> float:
    """The eigenvalue at which the counts add up to ``index``, between two of them on a logarithmic scale; the last one
    where they do not."""
    value = value.clamp(min=_LEAST)
    total = part.cumsum(0)
    at = int((total < index - 1e-6).sum())
    if at >= value.numel() or at == 0:
        return float(value[min(at, value.numel() - 1)])
    share = (index - float(total[at - 1])) / float(part[at])
    return float(value[at - 1] ** (1 - share) * value[at] ** share)


def _new_directions(x: Tensor, basis: Tensor, near: int, communicator: Communicator) -> Tensor:
    """Orthonormal columns that span what ``x`` adds to the rows of ``basis``, by products of thin matrices alone.

    The matrix is symmetric: but for rounding, ``x`` has a part in the last two blocks alone, the rows from ``near`` on.
    """
    # What is this small beside x itself is rounding, with the kernel in it: the basis spans all that there is.
    least = (1000 * torch.finfo(x.dtype).eps) ** 2 * float(inner(x, x, communicator))
    for known in (basis[near:], basis):  # the second round removes what rounding left of the first
        if known.size(0):
            x = torch.addmm(x, known.t(), communicator.sum(known @ x), alpha=-1)
        size, turn = torch.linalg.eigh(communicator.sum((x.t() @ x).double()))
        keep = size > (1e-6 * size[-1:]).clamp(min=max(least, 1e-36))
        x, least = x @ (turn[:, keep] / size[keep].sqrt()).to(x.dtype), 0.0
    return x
