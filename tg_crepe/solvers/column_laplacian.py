from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.sparse import sparse_csr
from tg_crepe.solvers.banded import PATIENCE, BandedSystem
from tg_crepe.solvers.conjugate_gradient import conjugate_gradient


class ColumnLaplacian:
    r"""Linear systems with another Laplacian for every column, on the same edges.

    .. math::
        \sum_j h_{ij}^l (x_i^l - x_j^l) = b_i^l \text{ at free nodes}, \qquad x_i^l = 0 \text{ elsewhere},

    where :math:`h^l \geq 0` are the edge weights of column :math:`l`. All columns are one block-diagonal sparse matrix,
    scaled to a unit diagonal: a product with it is many times quicker than one with the edge differences and one back.

    Args:
        graph (CanonicalGraph): The edges; its weights play no part.
        free (torch.Tensor): Which entries are unknowns, bool of shape :obj:`[num_nodes, num_columns]`.
    """

    def __init__(self, graph: CanonicalGraph, free: Tensor) -> None:
        self.graph = graph
        self.free = free
        self._band: BandedSystem | None = None  # made where conjugate gradients crawl
        rowptr, col, self._edge = graph.csr_pattern
        device, slots, (num_nodes, num_columns) = col.device, col.numel(), free.shape
        short = torch.int32 if num_columns * max(slots, num_nodes) < 2**31 else torch.long
        number = torch.arange(num_columns, device=device).unsqueeze(-1)
        starts = (rowptr[:-1] + number * slots).view(-1)
        self._rowptr = torch.cat([starts, starts.new_tensor([num_columns * slots])]).to(short)
        self._col = (col + number * num_nodes).view(-1).to(short)
        self._from = torch.repeat_interleave(torch.arange(num_nodes, device=device), rowptr.diff())
        self._to = col

    def solve(self, weight: Tensor, rhs: Tensor, tol: float, max_iterations: int) -> tuple[Tensor, int]:
        """Solves all columns by conjugate gradients; where these crawl and a band can be factorised, directly.

        Args:
            weight (torch.Tensor): The edge weights, of shape :obj:`[num_columns, num_edges]`.
            rhs (torch.Tensor): The right-hand sides, of shape :obj:`[num_nodes, num_columns]`; read at free nodes only.
            tol (float): The relative residual of the scaled system.
            max_iterations (int): The limit.

        Returns:
            The solution, of shape :obj:`[num_nodes, num_columns]`, and the number of iterations. A node all of whose
            weights vanish stays at zero.
        """
        num_nodes, num_columns = self.free.shape
        scale = self._inverse_root_of_diagonal(weight)
        coupling = weight.new_empty(num_columns, self._to.numel())
        for column in range(num_columns):  # one by one: no second array of this size
            root = scale[column]
            torch.mul(
                weight[column].index_select(0, self._edge), root.index_select(0, self._from), out=coupling[column]
            )
            coupling[column].mul_(root.index_select(0, self._to))
        size = num_columns * num_nodes
        matrix = sparse_csr(self._rowptr, self._col, coupling.view(-1), (size, size))

        def operator(x: Tensor) -> Tensor:
            return x - (matrix @ x.t().reshape(-1)).view(num_columns, num_nodes).t()

        right = scale.t() * rhs
        if self._band is None:
            result = conjugate_gradient(operator, right, tol=tol, max_iterations=min(PATIENCE, max_iterations))
            if result.status == "converged" or max_iterations <= PATIENCE:
                return scale.t() * result.x, result.iterations
            self._band = BandedSystem(self.graph)
        exact = self._solve_directly(weight, scale, right)
        if exact is not None:
            return scale.t() * exact, 1
        # What a factorisation finds singular no number of iterations solves.
        limit = min(PATIENCE, max_iterations) if self._band.fits else max_iterations
        result = conjugate_gradient(operator, right, tol=tol, max_iterations=limit)
        return scale.t() * result.x, result.iterations

    def _solve_directly(self, weight: Tensor, scale: Tensor, rhs: Tensor) -> Tensor | None:
        """The scaled systems of a long thin graph; :obj:`None` for any other."""
        if self._band is None or not self._band.fits:
            return None
        first, second = self.graph.edge_index
        columns = []
        for column, root in enumerate(scale):
            found = self._band.solve(
                torch.ones_like(root), weight[column] * root[first] * root[second], rhs[:, column : column + 1]
            )
            if found is None:
                return None
            columns.append(found)
        return torch.cat(columns, dim=1).to(rhs.dtype)

    def _inverse_root_of_diagonal(self, weight: Tensor) -> Tensor:
        """One over the root of the diagonal at free nodes, 0 elsewhere, of shape :obj:`[num_columns, num_nodes]`."""
        diagonal = weight.new_zeros(weight.size(0), self.graph.num_nodes)
        for end in self.graph.edge_index:
            diagonal.index_add_(1, end, weight)
        usable = self.free.t() & (diagonal > 0)
        return torch.where(usable, torch.where(usable, diagonal, 1.0).rsqrt(), 0.0)
