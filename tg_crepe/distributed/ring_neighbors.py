from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._checks import check_finite_rows
from tg_crepe._optional import available
from tg_crepe.distributed.ring import Ring
from tg_crepe.graph.metric import Placement
from tg_crepe.graph.neighbors import (
    SPARE,
    faiss_queries,
    power_of_two,
    rank_candidates,
    rounding_slack,
    torch_queries,
    validate,
)
from tg_crepe.warnings import GraphWarning

#: MiB of a travelling block in double precision, and its least and most rows. Larger ones are searched a little
#: quicker; a rank holds about five times as much beyond its own rows.
_BLOCK, _LEAST_ROWS, _MOST_ROWS = 32, 1024, 65536

#: MiB that a block of distances may take, and own rows that are searched at a time.
_DISTANCES, _QUERIES = 64, 4096


class RingNeighbors(NamedTuple):
    """The nearest neighbours of the own rows, ascending by distance.

    Args:
        neighbor (torch.Tensor): Their global numbers, of shape :obj:`[num_own, k]`.
        owner (torch.Tensor): The ranks that own them, of the same shape.
        distance (torch.Tensor): The distances in double precision, of the same shape.
    """

    neighbor: Tensor
    owner: Tensor
    distance: Tensor


def ring_neighbors(ring: Ring, x: Tensor, node_id: Tensor, k: int, placement: Placement) -> RingNeighbors:
    r"""The exact :math:`k` nearest other rows of every own row, among the rows of all ranks.

    Blocks of rows go round the ring, and every rank searches them for candidates of its own rows. The candidates of a
    block are ranked in double precision while it is there, and merged with the best so far by distance, then by
    index. As in :func:`~tg_crepe.graph.neighbors.nearest_neighbors` the answer does not depend on the search: with
    :math:`\tilde d_b` the rough squared distance of the last candidate of block :math:`b` and :math:`\varepsilon_b`
    its error, a row is certain when

    .. math::
        d_k(x_i)^2 < \min_b (\tilde d_b - \varepsilon_b),

    and rows that are not certain go round again in double precision, with twice as many candidates each time.

    A rank holds its own rows, :math:`k` neighbours for each, and a few copies of a block of about 32 MiB.

    Args:
        ring (Ring): The processes.
        x (torch.Tensor): The own rows, of shape :obj:`[num_own, num_features]`.
        node_id (torch.Tensor): Their global numbers, ascending, of shape :obj:`[num_own]`.
        k (int): The number of neighbours, below the number of rows of all ranks.
        placement (Placement): The metric.
    """
    points = _Points(ring, x, placement)
    answer = _Answer(ring, points, node_id, k)
    pending = torch.arange(x.size(0))
    answer.search(pending, torch.float32, k + SPARE)
    count = k + SPARE
    while True:
        pending = pending[answer.bound[pending] <= answer.squared[pending, -1]]
        equals = int((answer.squared[pending, -1] == 0).sum())
        unsure, equals = ring.max(torch.tensor([pending.numel(), equals])).tolist()
        if not unsure:
            return RingNeighbors(answer.neighbor, answer.owner, answer.squared.sqrt() * points.scale)
        answer.thin = answer.thin or equals > 0
        answer.search(pending, torch.float64, count)
        count *= 2


class _Points:
    """How the rows of any rank become points, the same on all ranks: where the metric sees them, scaled, then centred.

    Rows travel as they are and become points where they are looked at: in double precision they would take twice the
    memory and time on the way.
    """

    def __init__(self, ring: Ring, x: Tensor, placement: Placement) -> None:
        self.x, self.placement, self.scale = x, placement, 1.0
        self.block = max(_LEAST_ROWS, min(_MOST_ROWS, _BLOCK * 2**20 // (8 * x.size(1))))
        parts = x.split(self.block)
        ring.together(self._check_finite)
        largest, zero = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.long)
        for part in map(self.exact, parts):
            if len(part):
                largest, zero = torch.maximum(largest, part.abs().amax()), zero + (part == 0).all(dim=1).sum()
        self._warn_of_zero_rows(ring, int(ring.sum(zero)))
        self.scale = power_of_two(float(ring.max(largest)))
        total = torch.zeros(x.size(1), dtype=torch.float64)
        for part in map(self.exact, parts):
            total += part.sum(dim=0)
        self.mean = ring.sum(total) / ring.sum(torch.tensor(len(x)))
        largest = torch.zeros((), dtype=torch.float64)
        for part in map(self.exact, parts):
            if len(part):
                largest = torch.maximum(largest, (part - self.mean).square().sum(dim=1).amax())
        self.largest = float(ring.max(largest))  # squared norm

    def _check_finite(self) -> None:
        for part in self.x.split(self.block):
            check_finite_rows("x", part)

    def _warn_of_zero_rows(self, ring: Ring, zero: int) -> None:
        """The warning that the search on one process gives, once."""
        if self.placement.metric == "cosine" and zero and ring.rank == 0:
            note = f"{zero} zero row(s) of 'x' have no direction and stay at the origin"
            warnings.warn(note, GraphWarning, stacklevel=5)

    def exact(self, x: Tensor) -> Tensor:
        """Rows in double precision; every step is by row, so it does not matter which rows stand together."""
        return self.placement.place(x.double()) / self.scale


class _Answer:
    """The neighbours found so far.

    Args:
        bound (torch.Tensor): For every own row a squared distance below which no neighbour was overlooked.
        thin (bool): Whether blocks leave out all but the first k + 1 of equal rows, which are enough for everyone:
            with thousands of equal rows a search would be quadratic.
    """

    def __init__(self, ring: Ring, points: _Points, node_id: Tensor, k: int) -> None:
        self.ring, self.points, self.node_id, self.k = ring, points, node_id, k
        self.neighbor = torch.full((node_id.numel(), k), -1)
        self.owner = torch.full((node_id.numel(), k), -1, dtype=torch.int32)
        self.squared = torch.full((node_id.numel(), k), float("inf"), dtype=torch.float64)
        self.bound = torch.full((node_id.numel(),), float("inf"), dtype=torch.float64)
        self.thin = False

    def search(self, rows: Tensor, dtype: torch.dtype, count: int) -> None:
        """Finds the neighbours of some own rows anew, with so many candidates of every block."""
        self.neighbor[rows], self.squared[rows], self.bound[rows] = -1, float("inf"), float("inf")
        turns = int(self.ring.max(torch.tensor(-(-self.node_id.numel() // self.points.block))))
        steps = self.ring.blocks(self._own_block, turns)
        hide = True if self.ring.rank else None
        total = turns * self.ring.world_size
        for source, x, number in tqdm(
            steps, "nearest neighbours", total, unit="block", delay=3, disable=hide, leave=False
        ):
            if len(x) and rows.numel():
                self._look_through(rows, source, x, number, dtype, count)

    def _own_block(self, turn: int) -> tuple[Tensor, Tensor]:
        """The rows of a turn and their numbers."""
        part = slice(turn * self.points.block, (turn + 1) * self.points.block)
        x, number = self.points.x[part], self.node_id[part]
        if not self.thin or len(x) == 0:
            return x, number
        # Zero is added because -0.0 and 0.0 are the same place.
        _, group, size = torch.unique(self.points.exact(x) + 0.0, dim=0, return_inverse=True, return_counts=True)
        by_group = group.argsort(stable=True)
        earlier = torch.empty_like(group)  # equals of lower number
        earlier[by_group] = torch.arange(len(x)) - (size.cumsum(0) - size).repeat_interleave(size)
        return x[earlier <= self.k], number[earlier <= self.k]

    def _look_through(
        self, rows: Tensor, source: int, x: Tensor, number: Tensor, dtype: torch.dtype, count: int
    ) -> None:
        """Merges the candidates of a block, given as rows and their global numbers."""
        size, mean = len(x), self.points.mean
        slack = rounding_slack(self.points.largest, x.size(1), dtype)
        quick = dtype == torch.float32 and available("faiss")
        step = _QUERIES if quick else max(16, min(_QUERIES, _DISTANCES * 2**20 // (size * 16)))
        # The block and behind it some own rows: candidates are ranked by the code, and to the bits, of one process.
        both = mean.new_empty(size + min(step, rows.numel()), x.size(1))
        both[:size] = self.points.exact(x)
        search = (faiss_queries if quick else torch_queries)((both[:size] - mean).to(dtype))
        for part in rows.split(step):
            own = both[size : size + len(part)]
            own[:] = self.points.exact(self.points.x[part])
            found, rough = search((own - mean).to(dtype), min(count + 1, size))
            validate(found, rough, size)
            place = torch.arange(size, size + len(part))
            # One more: the row itself may be among them.
            found, squared, error = rank_candidates(both, place, found, rough, min(self.k + 1, size), _DISTANCES)
            self._merge(part, source, number[found], squared)
            if rough.size(1) < size:
                bound = rough[:, -1].double() - (2 * error).clamp(min=slack)
                self.bound[part] = torch.minimum(self.bound[part], bound)

    def _merge(self, rows: Tensor, source: int, number: Tensor, squared: Tensor) -> None:
        """Keeps the first k by (squared distance, global number) of what was found and of what came in now."""
        squared[number == self.node_id[rows].unsqueeze(1)] = float("inf")  # the row itself
        number, by_number = torch.cat([self.neighbor[rows], number], dim=1).sort(dim=1)
        squared = torch.cat([self.squared[rows], squared], dim=1).gather(1, by_number)
        owner = self.owner.new_full((rows.numel(), number.size(1) - self.k), source)
        owner = torch.cat([self.owner[rows], owner], dim=1).gather(1, by_number)
        squared, order = squared.sort(dim=1, stable=True)
        order = order[:, : self.k]
        self.squared[rows] = squared[:, : self.k]
        self.neighbor[rows], self.owner[rows] = number.gather(1, order), owner.gather(1, order)
