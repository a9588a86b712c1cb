from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk
from tg_crepe.graph.reductions import flat

if TYPE_CHECKING:
    from tg_crepe.graph.canonical import CanonicalGraph


def sparse_csr(rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor, without torch's notice that these are in beta."""
    _take_notice()
    return torch.sparse_csr_tensor(rowptr, col, value, size=shape, check_invariants=False)


@cache
def _take_notice() -> None:
    """Torch gives its notice once. Filters of warnings belong to the process: threads that changed them at every matrix
    would leave what they should not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        none = torch.zeros(1, dtype=torch.long)
        torch.sparse_csr_tensor(none, none[:0], none[:0].float(), size=(0, 0), check_invariants=False)


def normalised_adjacency(graph: CanonicalGraph) -> Tensor:
    r"""The symmetric :math:`S = D^{-1/2} W D^{-1/2}` as a sparse CSR tensor; a node without edges has a zero row."""
    rowptr, col, edge = graph.csr_pattern
    degree = graph.local_degree
    scale = torch.where(degree > 0, degree.rsqrt(), torch.zeros_like(degree))
    first, second = graph.oriented_index
    value = graph.edge_weight * scale[first] * scale[second]
    return sparse_csr(rowptr, col, value.index_select(0, edge), (graph.num_nodes, graph.num_local))


#: Entries of a matrix, times its columns, that one thread takes at a time: a call is hidden behind them.
_WORK_PER_CHUNK = 1_000_000


class RowMatrix:
    """A sparse matrix that is multiplied with rows of numbers, by compiled code where there is some.

    Every row is summed in the order of its entries, whoever holds the other rows and however many threads there are.

    Args:
        matrix (torch.Tensor): Sparse CSR, of shape :obj:`[num_rows, num_columns]`.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix
        self._compiled = (
            matrix.device.type == "cpu" and matrix.dtype in (torch.float32, torch.float64) and available("numba")
        )
        if self._compiled:
            parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values())
            self._rowptr, self._col, self._value = (part.numpy() for part in parts)
            self._chunks: dict[int, list[int]] = {}

    def addmm(self, add: Tensor | None, x: Tensor, beta: float, alpha: float, out: Tensor | None = None) -> Tensor:
        r""":math:`\beta M + \alpha A X`, into ``out`` where it is given; of no ``add``, :math:`\alpha A X`."""
        if out is None:
            out = x.new_empty(self._matrix.size(0), *x.shape[1:])
        if add is None:
            add, beta = out, 0.0
        if not out.numel():  # of no rows, a sparse product is none
            return out
        alike = x.dtype == add.dtype == self._matrix.dtype and add.shape == out.shape
        if not self._compiled or not alike:
            if beta == 0.0 and alpha == 1.0:
                return out.copy_(self._matrix @ x)
            product = torch.addmm if x.dim() == 2 else torch.addmv
            return product(add, self._matrix, x, beta=beta, alpha=alpha, out=out)
        from tg_crepe.graph.product_kernel import product_rows

        width, number = x[:1].numel(), self._value.dtype.type
        chunks = self._chunks.get(width) or self._chunks.setdefault(width, self._split(width))
        numbers, there, here = flat(x), flat(add), flat(out)
        arrays = (self._rowptr, self._col, self._value, numbers, there, number(beta), number(alpha), here, width)
        for_each_chunk(lambda k: product_rows(chunks[k], chunks[k + 1], *arrays), len(chunks) - 1)
        return out

    def _split(self, width: int) -> list[int]:
        """Boundaries between rows with about the same number of entries."""
        pieces = max(1, round(self._value.size * width / _WORK_PER_CHUNK))
        inner = np.searchsorted(self._rowptr, np.linspace(0, self._value.size, pieces + 1)[1:-1])
        return sorted({0, *inner.tolist(), self._rowptr.size - 1})


class SharedMatrix:
    r"""A sparse matrix with the pattern of a graph, of which every process holds the rows of its own nodes.

    .. math::
        (A X)_i = \sum_{j \in N(i)} a_{ij} X_j,

    where the rows :math:`X_j` of the halo are those of other processes. They are on their way while the rows of the
    inner nodes are computed, and what the other rows read is put beside them in one small block: nothing of the size
    of :math:`X` is copied, and every row is summed in the same order as without processes.

    Args:
        matrix (torch.Tensor): The rows of own nodes, sparse CSR of shape :obj:`[num_nodes, num_local]`.
        graph (CanonicalGraph): The graph.
    """

    def __init__(self, matrix: Tensor, graph: CanonicalGraph) -> None:
        self._communicator, self._num_inner, self._num_halo = graph.communicator, graph.num_inner, graph.num_halo
        self._whole = graph.communicator.world_size == 1
        if self._whole:
            self._inner = RowMatrix(matrix)
            return
        rowptr, col, value = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        first = self._num_inner
        slot = int(rowptr[first])
        self._inner = RowMatrix(sparse_csr(rowptr[: first + 1], col[:slot], value[:slot], (first, graph.num_nodes)))
        # The own nodes that the other rows read, numbered anew, and the halo behind them.
        read = torch.zeros(graph.num_local, dtype=torch.bool, device=col.device)
        read[col[slot:].long()] = True
        read[graph.num_nodes :] = True
        self._near = read[: graph.num_nodes].nonzero().view(-1)
        place = (read.cumsum(0) - 1).to(col.dtype)
        outer = sparse_csr(
            rowptr[first:] - slot,
            place[col[slot:].long()],
            value[slot:],
            (graph.num_nodes - first, self._near.numel() + self._num_halo),
        )
        self._outer = RowMatrix(outer)

    def __matmul__(self, x: Tensor) -> Tensor:
        """The product with ``x`` of shape :obj:`[num_nodes]` or :obj:`[num_nodes, num_columns]`."""
        return self._multiply(None, x, 0.0, 1.0)

    def addmm(self, add: Tensor, x: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        r""":math:`\beta M + \alpha A X`, as :func:`torch.addmm`.

        Args:
            add (torch.Tensor): :math:`M`, of the shape of ``x``.
            x (torch.Tensor): :math:`X`, of shape :obj:`[num_nodes]` or :obj:`[num_nodes, num_columns]`.
            beta (float, optional): :math:`\beta`. (default: :obj:`1.0`)
            alpha (float, optional): :math:`\alpha`. (default: :obj:`1.0`)
        """
        return self._multiply(add, x, beta, alpha)

    def _multiply(self, add: Tensor | None, x: Tensor, beta: float, alpha: float) -> Tensor:
        if self._whole:
            return self._inner.addmm(add, x, beta, alpha)
        around = x.new_empty(self._near.numel() + self._num_halo, *x.shape[1:])
        halo = self._communicator.exchange(x, around[self._near.numel() :])
        out, first = x.new_empty(x.shape), self._num_inner
        before, after = (None, None) if add is None else (add[:first], add[first:])
        self._inner.addmm(before, x, beta, alpha, out=out[:first])
        torch.index_select(x, 0, self._near, out=around[: self._near.numel()])
        halo.wait()
        self._outer.addmm(after, around, beta, alpha, out=out[first:])
        return out
