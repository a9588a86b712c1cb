from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.components import connected_components, shared_components
from tg_crepe.graph.sparse import SharedMatrix, normalised_adjacency, sparse_csr

#: The smallest weight of a model's graph beside the largest, as an exponent of two: sums, products and quotients of a
#: few such numbers stay in the range of the type, and solvers that know 24 and 53 bits do not crawl behind the rest.
_LEAST = {torch.float32: -60, torch.float64: -100}

#: Graphs whose largest weight is within this exponent of two are left as they are: class functions and energies that
#: have the unit of the weights stay in it.
_ORDINARY_EXPONENT = 30

#: Below this many edges everything fits the cache and an order of the nodes does not pay.
_WORTHWHILE = 100_000


@dataclass(frozen=True)
class CanonicalGraph:
    r"""An undirected weighted graph, every edge once, or the part of it that one of several processes holds.

    A part has its own nodes, numbered first, and behind them those of other parts that an edge leads to, the halo. An
    edge between two parts stands in both of them. Tensors of nodes have a row for each own node; to look across an
    edge takes a :meth:`Communicator.halo`, which is the identity for a whole graph.

    Args:
        edge_index (torch.Tensor): The edges :math:`(i, j)` with :math:`i < j`, sorted, of shape
            :obj:`[2, num_edges]`.
        edge_weight (torch.Tensor): The weights :math:`w_{ij} > 0`, of shape :obj:`[num_edges]`.
        num_nodes (int): The number of (own) nodes.
        communicator (Communicator, optional): What connects the parts. (default: one process holds all)
    """

    edge_index: Tensor
    edge_weight: Tensor
    num_nodes: int
    communicator: Communicator = ALONE

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return self.edge_weight.numel()

    @cached_property
    def total_nodes(self) -> int:
        """The number of nodes of all parts."""
        return int(self.communicator.sum(torch.tensor(self.num_nodes, device=self.edge_weight.device)))

    @property
    def num_halo(self) -> int:
        """The number of nodes of other parts that an edge leads to."""
        return self.communicator.num_halo

    @property
    def num_local(self) -> int:
        """The number of own and halo nodes."""
        return self.num_nodes + self.num_halo

    @cached_property
    def degree(self) -> Tensor:
        r"""The weighted degree :math:`d_i = \sum_j w_{ij}`, of shape :obj:`[num_nodes]`."""
        total = self.edge_weight.new_zeros(self.num_local, dtype=torch.float64)
        for end in self.edge_index:
            total.index_add_(0, end, self.edge_weight.double())
        return total[: self.num_nodes].to(self.edge_weight.dtype)

    @cached_property
    def local_degree(self) -> Tensor:
        """The weighted degree of own and halo nodes, of shape :obj:`[num_local]`."""
        return self.communicator.halo(self.degree)

    @property
    def counted_weight(self) -> Tensor:
        """The weights for sums over all edges in double precision: halved where another part counts the edge too."""
        weight = self.edge_weight.double()
        return torch.where(self.edge_index[1] < self.num_nodes, weight, weight / 2) if self.num_halo else weight

    @property
    def oriented_index(self) -> Tensor:
        """The edges, each from the node that all parts know by the smaller number, of shape :obj:`[2, num_edges]`."""
        if self.communicator.number is None:
            return self.edge_index
        first, second = self.communicator.number[self.edge_index]
        return torch.where(first < second, self.edge_index, self.edge_index.flip(0))

    @cached_property
    def num_components(self) -> int:
        """The number of connected components of the whole graph."""
        component = self.component  # of an empty part as well: the others wait for it
        largest = component.max() if component.numel() else component.new_tensor(-1)
        return int(self.communicator.max(largest)) + 1

    @cached_property
    def component(self) -> Tensor:
        """The number of the connected component of every node, of shape :obj:`[num_nodes]`."""
        if self.communicator.world_size > 1:
            return shared_components(self._part_component(), self.edge_index, self.communicator)
        return self._part_component()

    def _part_component(self) -> Tensor:
        """The components by edges between own nodes alone."""
        within = self.edge_index[:, self.edge_index[1] < self.num_nodes] if self.num_halo else self.edge_index
        return connected_components(within, self.num_nodes)

    def scipy_pattern(self) -> Any:
        """The directed edges between own nodes as a SciPy CSR matrix of ones, for its graph routines; CPU only."""
        from scipy.sparse import csr_matrix

        rowptr, col, _ = self.csr_pattern
        ones = torch.ones(col.numel(), dtype=torch.int8).numpy()
        pattern = csr_matrix((ones, col.numpy(), rowptr.numpy()), (self.num_nodes, self.num_local))
        return pattern[:, : self.num_nodes] if self.num_halo else pattern

    @cached_property
    def csr_pattern(self) -> tuple[Tensor, Tensor, Tensor]:
        """The directed edges by node, which do not depend on the weights.

        Row pointers of shape :obj:`[num_nodes + 1]`, and for each of the :obj:`2 * num_edges` slots (a part: one slot
        for an edge to the halo) the other node (ascending within a row) and the number of the undirected edge; 32-bit
        integers where they are large enough, which halve the memory and spare torch a conversion in every product with
        a sparse matrix. In a part the other nodes ascend by the number that all parts know them by, so that the sum
        over a row rounds as on one process.
        """
        if self.communicator.number is not None:
            return self._part_pattern(self.communicator.number)
        first, second = self.edge_index
        short = torch.int32 if max(self.num_nodes, 2 * self.num_edges) < 2**31 else torch.long
        below = torch.bincount(second, minlength=self.num_nodes)  # neighbours with a smaller number
        above = torch.bincount(first, minlength=self.num_nodes)
        rowptr = torch.zeros(self.num_nodes + 1, dtype=torch.long, device=first.device)
        rowptr[1:] = (below + above).cumsum(0)
        if first.device.type == "cpu" and available("numba"):
            from tg_crepe.graph.pattern_kernel import fill_rows

            pattern = torch.empty(2, 2 * self.num_edges, dtype=short)
            ends = (first.contiguous().numpy(), second.contiguous().numpy())
            fill_rows(*ends, rowptr[:-1].clone().numpy(), *pattern.numpy())
            return rowptr.to(short), pattern[0], pattern[1]
        # The edges are sorted by `first`, so within a row the larger neighbours stand in order already; a stable sort
        # by `second` orders the smaller ones.
        number = torch.arange(self.num_edges, device=first.device)
        by_second = torch.argsort(second, stable=True)
        at_second = (rowptr[:-1] - (below.cumsum(0) - below))[second[by_second]] + number
        at_first = (rowptr[:-1] + below - (above.cumsum(0) - above))[first] + number
        col, edge = torch.empty(2, 2 * self.num_edges, dtype=short, device=first.device)
        col[at_second], edge[at_second] = first[by_second].to(short), by_second.to(short)
        col[at_first], edge[at_first] = second.to(short), number.to(short)
        return rowptr.to(short), col, edge

    def _part_pattern(self, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The directed edges of a part, in a row by the ``number`` of the other node."""
        first, second = self.edge_index
        inner = (second < self.num_nodes).nonzero().view(-1)
        slots, stride = self.num_edges + inner.numel(), max(self.num_local, 1)
        short = torch.int32 if max(self.num_local, slots) < 2**31 else torch.long
        by_number = torch.argsort(number)
        place = torch.empty_like(by_number)
        place[by_number] = torch.arange(self.num_local, device=first.device)
        # Row and place of the other node as one number: one sort, and nothing else of the size of the edges beside it.
        key = first.new_empty(slots)
        torch.add(first * stride, place[second], out=key[: self.num_edges])
        torch.add(second[inner] * stride, place[first[inner]], out=key[self.num_edges :])
        key, order = torch.sort(key)
        col = by_number[key % stride].to(short)
        rowptr = torch.zeros(self.num_nodes + 1, dtype=torch.long, device=first.device)
        rowptr[1:] = torch.bincount(key.div_(stride, rounding_mode="floor"), minlength=self.num_nodes).cumsum(0)
        del key
        number_of = torch.cat([torch.arange(self.num_edges, device=first.device, dtype=short), inner.to(short)])
        return rowptr.to(short), col, number_of[order]

    @cached_property
    def boundary(self) -> Tensor:
        """Which nodes have an edge to the halo, bool of shape :obj:`[num_nodes]`."""
        mask = torch.zeros(self.num_nodes, dtype=torch.bool, device=self.edge_weight.device)
        mask[self.edge_index[0, self.edge_index[1] >= self.num_nodes]] = True
        return mask

    @cached_property
    def num_inner(self) -> int:
        """How many nodes stand before the first one with an edge to the halo: they need not wait for other parts."""
        return int(self.boundary.to(torch.uint8).argmax()) if self.num_halo else self.num_nodes

    @cached_property
    def adjacency(self) -> Tensor:
        """The symmetric weight matrix as a sparse CSR tensor of shape :obj:`[num_nodes, num_local]`."""
        rowptr, col, edge = self.csr_pattern
        return sparse_csr(rowptr, col, self.edge_weight.index_select(0, edge), (self.num_nodes, self.num_local))

    def multiply(self, x: Tensor) -> Tensor:
        """The product of the weight matrix with ``x`` of shape :obj:`[num_nodes, num_columns]`."""
        return self._product @ x

    def add_product(self, add: Tensor, x: Tensor, alpha: Tensor | float) -> Tensor:
        r""":math:`M + \alpha W X` in one pass, with ``add`` of the shape of ``x``, as in :meth:`multiply`."""
        return self._product.addmm(add, x, alpha=float(alpha))

    @cached_property
    def _product(self) -> SharedMatrix:
        return SharedMatrix(self.adjacency, self)

    @cached_property
    def normalised(self) -> SharedMatrix:
        r"""The symmetric :math:`S = D^{-1/2} W D^{-1/2}`, made once for all solves on the graph."""
        return SharedMatrix(normalised_adjacency(self), self)

    def forget_matrices(self) -> None:
        """Gives back the memory of the matrices that solves have made; one that asks for them makes them anew."""
        for name in ("adjacency", "_product", "normalised"):
            self.__dict__.pop(name, None)

    def with_weight(self, edge_weight: Tensor) -> CanonicalGraph:
        """The same edges with other weights of shape :obj:`[num_edges]`."""
        graph = CanonicalGraph(self.edge_index, edge_weight, self.num_nodes, self.communicator)
        # They do not depend on the weights.
        for name in ("csr_pattern", "component", "num_components", "total_nodes", "boundary", "num_inner"):
            if name in self.__dict__:
                graph.__dict__[name] = self.__dict__[name]
        return graph

    def in_safe_range(self) -> CanonicalGraph:
        r"""The same graph with weights that no model can carry out of the range of numbers.

        Where the largest weight is not within :math:`2^{\pm 30}`, all are divided by a power of two that brings it into
        :math:`(1/2, 1]`: no bit of a mantissa changes, and no answer that is free of scale. What is smaller than
        :math:`2^{-60}` of the largest (:math:`2^{-100}` in double precision) becomes that: it keeps its nodes
        connected, and weighs nothing beside larger ones.
        """
        weight, unit = self.edge_weight, self.unit_exponent
        shift = 0 if abs(unit) <= _ORDINARY_EXPONENT else unit
        least = unit - shift + _LEAST[weight.dtype]
        if shift == 0 and math.frexp(self._smallest_weight)[1] > least:
            return self
        half = shift // 2  # in two steps: one factor may be out of the range itself
        return self.with_weight((weight * 2.0**-half * 2.0 ** (half - shift)).clamp(min=2.0**least))

    @cached_property
    def unit_exponent(self) -> int:
        """The exponent of the smallest power of two that no weight exceeds."""
        weight = self.edge_weight
        largest = self.communicator.max(weight.max() if weight.numel() else weight.new_zeros(()))
        mantissa, exponent = math.frexp(float(largest))
        return exponent - (mantissa == 0.5)

    @cached_property
    def _smallest_weight(self) -> float:
        return float(self.edge_weight.min()) if self.num_edges else 1.0

    def local_order(self) -> Tensor | None:
        """An order of the nodes in which neighbours lie near each other in memory (reverse Cuthill–McKee).

        A pass over the edges reads the values of the neighbours; near each other they are in the cache. In a part of a
        graph the nodes with edges to the halo come last: the others need not wait for it.

        Returns:
            torch.Tensor or None: The nodes in their new order, of shape :obj:`[num_nodes]`; :obj:`None` where it would
            not pay (a small graph, or one that is not on the CPU).
        """
        order = None
        if self.edge_weight.device.type == "cpu" and self.num_edges >= _WORTHWHILE:
            from scipy.sparse.csgraph import reverse_cuthill_mckee

            found = reverse_cuthill_mckee(self.scipy_pattern(), symmetric_mode=True)
            order = torch.from_numpy(found.astype("int64"))
        if self.communicator.world_size == 1:
            return order
        boundary = self.boundary if order is None else self.boundary[order]
        inner_first = torch.argsort(boundary.to(torch.uint8), stable=True)
        return inner_first if order is None else order[inner_first]

    def reorder(self, order: Tensor) -> CanonicalGraph:
        """The same graph with the nodes in another ``order`` of shape :obj:`[num_nodes]`."""
        place = torch.arange(self.num_local, device=order.device)  # the halo stays where it is
        place[order] = torch.arange(self.num_nodes, device=order.device)
        first, second = place[self.edge_index]
        key, by_key = torch.sort(torch.minimum(first, second) * self.num_local + torch.maximum(first, second))
        edge_index = torch.stack([key // max(self.num_local, 1), key % max(self.num_local, 1)])
        communicator = self.communicator.reorder(order)
        graph = CanonicalGraph(edge_index, self.edge_weight[by_key], self.num_nodes, communicator)
        for name in ("degree", "component"):
            if name in self.__dict__:
                graph.__dict__[name] = self.__dict__[name][order]
        return graph

    def subgraph(self, keep: Tensor) -> CanonicalGraph:
        """The graph on the nodes where the mask ``keep`` of shape :obj:`[num_nodes]` holds, renumbered in order."""
        if not bool(self.communicator.max((~keep).any().long())):
            return self
        communicator, kept = self.communicator.restrict(keep)
        number = kept.cumsum(0) - 1
        inside = kept[self.edge_index].all(dim=0)
        edge_index = number[self.edge_index[:, inside]]
        return CanonicalGraph(edge_index, self.edge_weight[inside], int(keep.sum()), communicator)

    def compact(self, keep: Tensor) -> tuple[CanonicalGraph, Tensor]:
        """The graph on the nodes where the mask ``keep`` of shape :obj:`[num_nodes]` holds, in :meth:`local_order`, and
        the numbers of these nodes here."""
        nodes, part = keep.nonzero().view(-1), self.subgraph(keep)
        order = part.local_order()
        return (part, nodes) if order is None else (part.reorder(order), nodes[order])
