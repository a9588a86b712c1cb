from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import require
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.backends.numba import _split


class NumbaVariation:
    r"""The primal–dual iteration of the clamped total variation as one fused pass over the nodes, compiled by numba,
    for the CPU; see :class:`~tg_crepe.solvers.backends.numba.NumbaBackend` for the layout, and
    :func:`~tg_crepe.solvers.clamped_variation.minimise_variation` for the iteration.

    Args:
        graph (CanonicalGraph): A graph without isolated nodes, on the CPU.
        lower (torch.Tensor): The lower bounds of the values, finite, of shape :obj:`[num_nodes, num_classes]`.
        upper (torch.Tensor): The upper bounds, of the same shape; equal to ``lower`` where a value is known.
        start (torch.Tensor): The first point, of the same shape; the dual starts at zero.
        primal_step (float): :math:`\rho`; the step of node :math:`i` is :math:`\rho / d_i`.
        dual_step (float): :math:`\sigma`; the step of edge :math:`e` is :math:`\sigma / w_e`.
    """

    def __init__(
        self,
        graph: CanonicalGraph,
        lower: Tensor,
        upper: Tensor,
        start: Tensor,
        primal_step: float,
        dual_step: float,
    ) -> None:
        require("numba", extra="fast")
        adjacency = graph.adjacency
        self.ptr = adjacency.crow_indices().long().numpy()
        self.col = adjacency.col_indices().numpy()
        self.weight = adjacency.values().numpy()
        self.reach = np.ones_like(self.weight)  # the weight cancels: Σ K ū = σ (ū_i − ū_j)
        self.inverse = (1 / graph.degree.double()).to(start.dtype).numpy()
        self.chunks = _split(self.ptr)
        self.lower, self.upper = lower.contiguous().numpy(), upper.contiguous().numpy()
        number = self.weight.dtype.type
        self.steps = number(primal_step), number(dual_step)
        self.u = start.clone(memory_format=torch.contiguous_format)
        self.u_bar = self.u.clone()
        self.dual = start.new_zeros(self.col.size, start.size(1))
        self._spare = (torch.empty_like(self.u), torch.empty_like(self.u))

    def iterate(self) -> None:
        """One iteration; the former points become buffers."""
        from tg_crepe.solvers.kernels import clamped_variation
        from tg_crepe.solvers.kernels.threads import for_each_chunk
        from tg_crepe.solvers.kernels.vector import row_type

        row = row_type(self.u.size(1), self.weight.dtype)
        u_new, u_bar_new = self._spare
        arrays = (
            self.ptr, self.col, self.weight, self.reach, self.inverse, self.dual.view(-1).numpy(),
            self.u_bar.view(-1).numpy(), self.u.numpy(), self.lower, self.upper, u_new.numpy(),
            u_bar_new.view(-1).numpy(), *self.steps,
        )  # fmt: skip

        def work(chunk: int) -> None:
            clamped_variation.iterate(row, self.chunks[chunk], self.chunks[chunk + 1], *arrays)

        for_each_chunk(work, len(self.chunks) - 1)
        self._spare = (self.u, self.u_bar)
        self.u, self.u_bar = u_new, u_bar_new

    def values(self) -> tuple[Tensor, Tensor]:
        """The energy and its lower bound for every class, in double precision, of shape :obj:`[num_classes]`."""
        from tg_crepe.solvers.kernels import clamped_variation, primal_dual
        from tg_crepe.solvers.kernels.threads import for_each_chunk
        from tg_crepe.solvers.kernels.vector import row_type

        u = self.u.double().view(-1).numpy()
        dual = self.dual.view(-1).numpy()
        energy, bound = np.zeros((2, len(self.chunks) - 1, self.u.size(1)))
        row = row_type(self.u.size(1), u.dtype)

        def work(chunk: int) -> None:
            nodes = self.chunks[chunk], self.chunks[chunk + 1]
            primal_dual.energy(row, *nodes, self.ptr, self.col, self.weight, u, energy[chunk])
            clamped_variation.lower_bound(*nodes, self.ptr, self.weight, dual, self.lower, self.upper, bound[chunk])

        for_each_chunk(work, len(self.chunks) - 1)
        return torch.from_numpy(energy.sum(axis=0) / 2), torch.from_numpy(bound.sum(axis=0))  # an edge has two ends
