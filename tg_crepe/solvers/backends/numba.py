from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._optional import require
from tg_crepe.energy.constraint import Constraint, Coupling, IndependentLabels, KnownValues, LabelCoupling
from tg_crepe.energy.gradient import dual_step
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import flat
from tg_crepe.solvers.chambolle_pock import PrimalDualState
from tg_crepe.solvers.kernels import COUNTS
from tg_crepe.solvers.problem import Certificate, InnerProblem
from tg_crepe.typing import OptTensor

#: Directed edges that one thread takes at a time: small enough to share the work evenly, large enough to hide a call.
_EDGES_PER_CHUNK = 50_000

#: What this process has compiled or read from disk, by number of classes and type.
_compiled: set[tuple[int, type]] = set()


class NumbaBackend:
    r"""The primal–dual iteration as one fused pass over the nodes, compiled by numba, for the CPU.

    Every node has its own copy of :math:`\mathbf{z}` on its edges (each undirected edge stands twice), so a single loop
    reads :math:`\bar v_j = \bar u_j / d_j`, updates and clips the dual, sums the divergence, takes the proximal step,
    projects and extrapolates: no atomics, no temporary of the size of the edges, and the same bits with any number of
    threads. The two copies are exact negatives of each other because :math:`\bar v` is stored and not :math:`\bar u`.

    Args:
        graph (CanonicalGraph): The graph; its dual has the shape :obj:`[2 * num_edges, num_classes]`.
        divisor (torch.Tensor, optional): The :math:`s` of the operator :math:`K = W \mathrm{diag}(s)^{-1}`, for own and
            halo nodes, of shape :obj:`[num_local]`. (default: :obj:`None`, the degree)
        short (bool, optional): Whether the dual of functions in single precision is kept in 16 bits, as whole multiples
            of 1/32767: half the memory, and half of what an iteration reads and writes. Both copies of an edge are
            rounded alike, so that a certificate stays a true bound; the gap that can be reached is about
            :math:`10^{-6}` of the energy, where single precision reaches :math:`10^{-7}`. (default: :obj:`False`)
    """

    def __init__(self, graph: CanonicalGraph, divisor: OptTensor = None, short: bool = False) -> None:
        require("numba", extra="fast")
        if graph.edge_weight.device.type != "cpu":
            raise ValueError(f"'backend' = 'numba' needs the graph on the CPU, got {graph.edge_weight.device}")
        self.graph = graph
        adjacency = graph.adjacency
        self.ptr = adjacency.crow_indices().long().numpy()
        self.col = adjacency.col_indices().numpy()
        self.weight = adjacency.values().numpy()
        self.divisor = graph.local_degree if divisor is None else divisor
        number = graph.edge_weight.dtype
        self.short = short and number == torch.float32
        self.inverse = (1 / graph.degree.double()).to(number).numpy()
        self.scale = (1 / self.divisor[: graph.num_nodes].double()).to(number).numpy()
        self.reach = dual_step(graph.edge_index, self.divisor).index_select(0, graph.csr_pattern[2]).numpy()
        # The nodes before the first one with an edge to the halo do not wait for what other processes send.
        before, after = _split(self.ptr, 0, graph.num_inner), _split(self.ptr, graph.num_inner, graph.num_nodes)
        self.num_inner = len(before) - 1
        self.chunks = before + after[1:]
        self._prepared: tuple[InnerProblem, dict[str, Any]] | None = None

    def start(self, u: Tensor, dual: OptTensor = None) -> PrimalDualState:
        """The state at ``u``, with a zero dual unless one of an earlier state is given, which it takes over."""
        kept = torch.int16 if self.short else u.dtype
        if dual is None:
            dual = u.new_zeros(self.col.size, u.size(1), dtype=kept)
        elif dual.dtype != kept:  # of a flow that kept it in the other way
            dual = self.from_slots(dual) if self.short else dual.to(u.dtype) / COUNTS
        u = u.clone(memory_format=torch.contiguous_format)
        return PrimalDualState(u, self._scaled(u), dual)

    def restart(self, state: PrimalDualState) -> PrimalDualState:
        """The same point and dual without momentum."""
        return PrimalDualState(state.u, self._scaled(state.u), state.dual, state.spare)

    def _scaled(self, u: Tensor) -> Tensor:
        """Own rows, and room for those of the halo, which every iteration fetches."""
        v = u.new_empty(self.graph.num_local, u.size(1))
        torch.mul(u, torch.from_numpy(self.scale).unsqueeze(-1), out=v[: u.size(0)])
        return v

    def by_slot(self, dual: Tensor) -> Tensor:
        """The dual of every directed edge: that is how it is kept, but for its unit."""
        return dual.to(self.graph.edge_weight.dtype) / COUNTS if self.short else dual

    def from_slots(self, dual: Tensor) -> Tensor:
        """The dual from that of every directed edge."""
        return (dual * COUNTS).round_().to(torch.int16) if self.short else dual

    def iterate(self, state: PrimalDualState, problem: InnerProblem, rho: float, theta: float) -> PrimalDualState:
        """One iteration; the dual is updated in place and the former ``u`` becomes a buffer."""
        from tg_crepe._threads import for_each_chunk
        from tg_crepe.solvers.kernels import primal_dual

        fixed = self._prepare(problem)
        number = state.u.numpy().dtype.type
        u_new, v_new = state.spare or (torch.empty_like(state.u), torch.empty_like(state.u_bar))
        shrink = 1 / (1 + rho / problem.time_step)
        scalars = [number(x) for x in (1 / state.u.size(1), rho, 1 / rho, theta, shrink)]
        arrays = (
            self.ptr, self.col, self.weight, self.reach, self.inverse, self.scale,
            state.dual.view(-1).numpy(), self._counts(number), state.u_bar.view(-1).numpy(), state.u.numpy(),
            fixed["source"], u_new.numpy(), v_new.view(-1).numpy(),
            fixed["mode"], fixed["label"], fixed["sign"], fixed["eps"], *scalars,
        )  # fmt: skip
        row = fixed["row"]

        def work(chunk: int) -> None:
            primal_dual.iterate(row, self.chunks[chunk], self.chunks[chunk + 1], *arrays)

        with _compilation_told(state.u.size(1), number):
            halo = self.graph.communicator.exchange(*state.u_bar.split([len(self.inverse), self.graph.num_halo]))
            for_each_chunk(work, self.num_inner)
            halo.wait()
            for_each_chunk(lambda chunk: work(self.num_inner + chunk), len(self.chunks) - 1 - self.num_inner)
        return PrimalDualState(u_new, v_new, state.dual, (state.u, state.u_bar))

    def own_energy(self, u: Tensor) -> Tensor:
        """What this process has of the energy of every class, in double precision, of shape :obj:`[num_classes]`."""
        from tg_crepe._threads import for_each_chunk
        from tg_crepe.solvers.kernels import primal_dual
        from tg_crepe.solvers.kernels.vector import row_type

        near, scale = flat(self.graph.communicator.halo(u)), (1 / self.divisor.double()).numpy()
        total = np.zeros((len(self.chunks) - 1, u.size(1)))
        row = row_type(u.size(1), total.dtype)

        def work(chunk: int) -> None:
            first, last = self.chunks[chunk], self.chunks[chunk + 1]
            primal_dual.energy(row, first, last, self.ptr, self.col, self.weight, near, scale, total[chunk])

        for_each_chunk(work, len(self.chunks) - 1)
        return torch.from_numpy(total.sum(axis=0) / 2)  # edges are met from both ends

    def divergence(self, dual: Tensor) -> Tensor:
        r""":math:`K^*\mathbf{z}` in double precision, of shape :obj:`[num_nodes, num_classes]`."""
        from tg_crepe._threads import for_each_chunk
        from tg_crepe.solvers.kernels import primal_dual
        from tg_crepe.solvers.kernels.vector import row_type

        total = torch.empty(self.graph.num_nodes, dual.size(1), dtype=torch.float64)
        row = row_type(dual.size(1), total.numpy().dtype)
        arrays = (self.ptr, self.weight, self.scale, dual.view(-1).numpy(), self._counts(float), total.numpy())

        def work(chunk: int) -> None:
            primal_dual.divergence(row, self.chunks[chunk], self.chunks[chunk + 1], *arrays)

        for_each_chunk(work, len(self.chunks) - 1)
        return total

    def certificate(self, state: PrimalDualState, problem: InnerProblem) -> Certificate:
        """Primal value, dual value and KKT residual at the state."""
        from tg_crepe._threads import for_each_chunk
        from tg_crepe.solvers.kernels import primal_dual
        from tg_crepe.solvers.kernels.vector import row_type

        fixed = self._prepare(problem)
        total = np.zeros((len(self.chunks) - 1, 5))
        arrays = (
            self.ptr, self.weight, self.scale, state.dual.view(-1).numpy(), self._counts(float),
            state.u.numpy(), problem.u_prev.contiguous().numpy(), problem.linear.contiguous().numpy(),
            fixed["mode"], fixed["label"], fixed["sign"], float(fixed["eps"]), problem.time_step,
        )  # fmt: skip
        row = row_type(state.u.size(1), total.dtype)

        def work(chunk: int) -> None:
            primal_dual.certify(row, self.chunks[chunk], self.chunks[chunk + 1], *arrays, total[chunk])

        for_each_chunk(work, len(self.chunks) - 1)
        parts, energies = problem.communicator.sums(torch.from_numpy(total.sum(axis=0)), self.own_energy(state.u))
        smooth, dual, along, distance, size = parts
        energy = energies.sum()
        tiny = torch.finfo(torch.float64).tiny
        residual = torch.maximum((distance / size.clamp(min=tiny)).sqrt(), (energy - along) / energy.clamp(min=tiny))
        return Certificate(energies, smooth + energy, dual, residual)

    def _counts(self, number: type) -> Any:
        """How many units the dual is 1 in, as a number of a type."""
        return number(COUNTS if self.short else 1)

    def _prepare(self, problem: InnerProblem) -> dict[str, Any]:
        """What the kernels need of a problem, made once for all of its iterations."""
        if self._prepared is None or self._prepared[0] is not problem:
            from tg_crepe.solvers.kernels.vector import row_type

            u_prev = problem.u_prev.contiguous()
            number = u_prev.numpy().dtype
            mode, label, sign, eps = _encode(problem.constraint, u_prev.size(0))
            self._prepared = (
                problem,
                {
                    "row": row_type(u_prev.size(1), number),
                    "source": (u_prev / problem.time_step + problem.linear).contiguous().numpy(),
                    "mode": mode,
                    "label": label,
                    "sign": sign,
                    "eps": number.type(eps),
                },
            )
        return self._prepared[1]


@contextmanager
def _compilation_told(num_classes: int, number: type) -> Iterator[None]:
    """Tells a user at a terminal, once, that the first iteration took long because it was compiled."""
    if (num_classes, number) in _compiled:
        yield
        return
    start = time.perf_counter()
    yield
    _compiled.add((num_classes, number))
    seconds = time.perf_counter() - start
    if seconds > 0.5 and sys.stderr.isatty():
        tqdm.write(f"compiled for {num_classes} classes in {seconds:.1f} s (once; kept on disk)", file=sys.stderr)


def _encode(constraint: Constraint, num_nodes: int) -> tuple[int, np.ndarray, np.ndarray, float]:
    """A constraint as a mode, labels, signs and a margin for the kernels."""
    from tg_crepe.solvers.kernels import primal_dual as kernels

    label, sign = np.zeros(num_nodes, dtype=np.int32), np.zeros((1, 1), dtype=np.int8)
    if isinstance(constraint, LabelCoupling):
        return kernels.LABELS, constraint.y.to(torch.int32).numpy(), sign, constraint.eps
    if isinstance(constraint, IndependentLabels):
        return kernels.INDEPENDENT, label, constraint.sign.to(torch.int8).contiguous().numpy(), constraint.eps
    if isinstance(constraint, KnownValues):
        label = constraint.sign.any(dim=1).to(torch.int32).numpy() - 1
        return kernels.KNOWN, label, constraint.sign.to(torch.int8).contiguous().numpy(), 0.0
    return (kernels.COUPLING if isinstance(constraint, Coupling) else kernels.FREE), label, sign, 0.0


def _split(ptr: np.ndarray, first: int = 0, last: int | None = None) -> list[int]:
    """Boundaries of chunks of nodes with about the same number of edges; they do not depend on the threads."""
    last = ptr.size - 1 if last is None else last
    start, end = int(ptr[first]), int(ptr[last])
    pieces = max(1, round((end - start) / _EDGES_PER_CHUNK))
    wanted = np.linspace(start, end, pieces + 1)
    inner = np.searchsorted(ptr, wanted[1:-1]).clip(first, last)
    return sorted({first, *inner.tolist(), last})
