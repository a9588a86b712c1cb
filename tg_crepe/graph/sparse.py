from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tg_crepe.graph.canonical import CanonicalGraph


def sparse_csr(rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor, without torch's notice that these are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rowptr, col, value, size=shape, check_invariants=False)


def normalised_adjacency(graph: CanonicalGraph) -> Tensor:
    r"""The symmetric :math:`S = D^{-1/2} W D^{-1/2}` as a sparse CSR tensor; a node without edges has a zero row."""
    rowptr, col, edge = graph.csr_pattern
    degree = graph.local_degree
    scale = torch.where(degree > 0, degree.rsqrt(), torch.zeros_like(degree))
    first, second = graph.oriented_index
    value = graph.edge_weight * scale[first] * scale[second]
    return sparse_csr(rowptr, col, value.index_select(0, edge), (graph.num_nodes, graph.num_local))


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
            self._inner = matrix
            return
        rowptr, col, value = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        first = self._num_inner
        slot = int(rowptr[first])
        self._inner = sparse_csr(rowptr[: first + 1], col[:slot], value[:slot], (first, graph.num_nodes))
        # The own nodes that the other rows read, numbered anew, and the halo behind them.
        read = torch.zeros(graph.num_local, dtype=torch.bool, device=col.device)
        read[col[slot:].long()] = True
        read[graph.num_nodes :] = True
        self._near = read[: graph.num_nodes].nonzero().view(-1)
        place = (read.cumsum(0) - 1).to(col.dtype)
        self._outer = sparse_csr(
            rowptr[first:] - slot,
            place[col[slot:].long()],
            value[slot:],
            (graph.num_nodes - first, self._near.numel() + self._num_halo),
        )

    def __matmul__(self, x: Tensor) -> Tensor:
        """The product with ``x`` of shape :obj:`[num_nodes]` or :obj:`[num_nodes, num_columns]`."""
        if self._whole:
            return self._inner @ x
        return self.addmm(torch.zeros_like(x), x, beta=0.0)

    def addmm(self, add: Tensor, x: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        r""":math:`\beta M + \alpha A X`, as :func:`torch.addmm`.

        Args:
            add (torch.Tensor): :math:`M`, of the shape of ``x``.
            x (torch.Tensor): :math:`X`, of shape :obj:`[num_nodes]` or :obj:`[num_nodes, num_columns]`.
            beta (float, optional): :math:`\beta`. (default: :obj:`1.0`)
            alpha (float, optional): :math:`\alpha`. (default: :obj:`1.0`)
        """
        product = torch.addmm if x.dim() == 2 else torch.addmv
        if self._whole:
            return product(add, self._inner, x, beta=beta, alpha=alpha)
        around = x.new_empty(self._near.numel() + self._num_halo, *x.shape[1:])
        halo = self._communicator.exchange(x, around[self._near.numel() :])
        out, first = x.new_empty(x.shape), self._num_inner
        if first:  # of no rows, a sparse product is none
            product(add[:first], self._inner, x, beta=beta, alpha=alpha, out=out[:first])
        torch.index_select(x, 0, self._near, out=around[: self._near.numel()])
        halo.wait()
        if first < x.size(0):
            product(add[first:], self._outer, around, beta=beta, alpha=alpha, out=out[first:])
        return out
