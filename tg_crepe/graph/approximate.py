from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._optional import available
from tg_crepe.graph.inverted_lists import InvertedLists
from tg_crepe.graph.neighbors import SPARE, nearest_neighbors, rank_candidates, scale_rows

#: Rows that choose how many cells are looked through, and as many others on which the recall is then measured.
_SAMPLE = 1000

#: Rounds of k-means. Cells around random rows cost up to twenty times as many pairs; more rounds gain little.
_ROUNDS = 5

#: Rows a cell from which its centre is learnt.
_ROWS_PER_CENTRE = 64

#: How many of the centres nearest to a row vote for their cells.
_VOTES = 8


class Approximation(NamedTuple):
    """Neighbours of shape :obj:`[num_nodes, k]`, their distances, a sentence on how good they are, and the share of the
    true neighbours that was measured (:obj:`None`: they are exact)."""

    neighbor: Tensor
    distance: Tensor
    note: str
    recall: float | None


def approximate_neighbors(x: Tensor, k: int, recall: float, memory_budget: float) -> Approximation:
    r"""About the :math:`k` nearest other rows of every row of ``x``, with a recall that is measured.

    The rows are divided into :math:`2 \sqrt{N}` cells by k-means. With faiss on a CPU these are its inverted lists, and
    every row is searched in the :math:`p` whose centres are nearest to it, among codes where these hold many rows
    (:class:`~tg_crepe.graph.compressed_lists.CompressedLists`). Elsewhere every cell is searched against the first
    :math:`p` cells of its own list, which is ordered by how often its rows have the other centre among their nearest,
    one matrix product per cell. The candidates are ranked in double precision as in the exact search.

    The exact neighbours of two random samples of 1,000 rows are searched as well. The first sample chooses the
    smallest :math:`p` that misses at most half of what may be missed. On the second the recall is measured,

    .. math::
        \frac{1}{|S| k} \sum_{i \in S} \#\{j \text{ found} : \|x_i - x_j\| \leq d_k(x_i)\},

    so equal distances count as right. If the cells would hold too many pairs to save time, or the measured recall is
    below ``recall``, the answer is that of the exact search, and the note says so. The samples and k-means have a
    fixed seed: the same call gives the same neighbours.

    Args:
        x (torch.Tensor): Finite features, of shape :obj:`[num_nodes, num_features]`.
        k (int): The number of neighbours, below :obj:`num_nodes`.
        recall (float): The share of the true neighbours that must be found.
        memory_budget (float): About how many MiB a block may take.
    """
    num_nodes = x.size(0)
    exact, scale = scale_rows(x)
    generator = torch.Generator().manual_seed(0)  # on the CPU, so that every device draws the same rows
    sample = torch.randperm(num_nodes, generator=generator)[: 2 * _SAMPLE].to(x.device)
    true_neighbor, true_distance = nearest_neighbors(x, k, "auto", memory_budget, sample)
    chosen = sample.numel() // 2
    points = (exact - exact.mean(dim=0)).float()
    cells: Any
    if x.device.type == "cpu" and available("faiss"):
        cells = InvertedLists(points, k)
    else:
        cells = _Cells(points, k, memory_budget, generator)
    probes = cells.probes(sample[:chosen], true_neighbor[:chosen], 1 - (1 - recall) / 2)
    pairs = cells.share_of_pairs(probes)
    if pairs > cells.most_pairs:
        note = f"a recall of {recall:g} would take {pairs:.0%} of all pairs, which saves no time"
        return _exact_instead(x, k, memory_budget, note)

    neighbor = torch.empty(num_nodes, k, dtype=torch.long, device=x.device)
    distance = torch.empty(num_nodes, k, dtype=torch.float64, device=x.device)
    with tqdm(total=num_nodes, desc="nearest neighbours", unit="node", delay=3, disable=None, leave=False) as bar:
        for rows, found, rough in cells.search(probes):
            neighbor[rows], squared, _ = rank_candidates(exact, rows, found, rough, k, memory_budget)
            distance[rows] = squared.sqrt() * scale
            bar.update(rows.numel())
    measured = float((distance[sample[chosen:]] <= true_distance[chosen:, -1:]).double().mean())
    rows_text = f"measured on {sample.numel() - chosen:,} rows"
    if measured < recall:
        return _exact_instead(x, k, memory_budget, f"the recall {rows_text} was {measured:.4f}, below {recall:g}")
    note = f"approximate neighbours: recall {measured:.4f}, {rows_text}"
    return Approximation(neighbor, distance, note, measured)


def _exact_instead(x: Tensor, k: int, memory_budget: float, reason: str) -> Approximation:
    """The exact neighbours, and why."""
    neighbor, distance = nearest_neighbors(x, k, "auto", memory_budget)
    return Approximation(neighbor, distance, f"exact neighbours instead of approximate ones: {reason}", None)


class _Cells:
    """Rows grouped around k-means centres; every cell lists the cells in the order in which its rows need them."""

    #: Share of all pairs beyond which the cells save too little: a pair costs about twice as much as in a flat search.
    most_pairs = 0.25

    def __init__(self, points: Tensor, k: int, memory_budget: float, generator: torch.Generator) -> None:
        self.count = min(k + SPARE + 1, points.size(0))  # one more: a row usually finds itself
        self.memory_budget = memory_budget
        centre = self._centres(points, generator)
        nearest = self._nearest_centres(points, centre, min(_VOTES, centre.size(0)))
        self.cell = nearest[:, 0]
        self.member = self.cell.argsort(stable=True)
        self.points = points[self.member]
        self.size = torch.bincount(self.cell, minlength=centre.size(0))
        self.order = self._order(centre, nearest)
        self.total = self.size[self.order].cumsum(dim=1)  # rows in the first cells of a list

    def _centres(self, points: Tensor, generator: torch.Generator) -> Tensor:
        """Centres by k-means on a random part of the rows; an empty cell keeps its centre."""
        num_cells = max(1, min(points.size(0), math.isqrt(4 * points.size(0))))
        drawn = torch.randperm(points.size(0), generator=generator)[: _ROWS_PER_CENTRE * num_cells]
        drawn_points = points[drawn.to(points.device)]
        centre = drawn_points[:num_cells]
        for _ in range(_ROUNDS):
            cell = self._nearest_centres(drawn_points, centre, 1)[:, 0]
            size = torch.bincount(cell, minlength=num_cells)
            # By segments of sorted rows: a sum by atomic additions would differ from run to run on a GPU.
            total = torch.segment_reduce(drawn_points[cell.argsort(stable=True)], "sum", lengths=size, axis=0)
            size = size.unsqueeze(1)
            centre = torch.where(size > 0, total / size.clamp(min=1), centre)
        return centre

    def _nearest_centres(self, points: Tensor, centre: Tensor, count: int) -> Tensor:
        """The nearest centres of every row, ascending, of shape :obj:`[num_rows, count]`."""
        norm = centre.square().sum(dim=1)
        found = []
        for part in points.split(self._block(centre.size(0))):
            squared = torch.addmm(norm, part, centre.t(), alpha=-2)
            found.append(squared.topk(count, dim=1, largest=False)[1])
        return torch.cat(found)

    def _order(self, centre: Tensor, nearest: Tensor) -> Tensor:
        """Every cell's list of all cells: its own first, then by votes of its rows, then by distance of centres.

        Distance alone would take several times as many cells: many of the nearest centres lie where a cell has no rows.
        """
        num_cells = centre.size(0)
        votes = torch.zeros(num_cells * num_cells, dtype=torch.long, device=centre.device)
        for place, column in enumerate(nearest.t()):
            worth = nearest.size(1) - place
            votes += worth * torch.bincount(self.cell * num_cells + column, minlength=votes.numel())
        by_distance = self._nearest_centres(centre, centre, num_cells)
        by_votes = votes.view(num_cells, num_cells).gather(1, by_distance).sort(dim=1, descending=True, stable=True)[1]
        return by_distance.gather(1, by_votes)

    def _block(self, columns: int) -> int:
        """How many rows of distances to so many others fit the budget, with as much again for what topk makes."""
        return max(1, int(self.memory_budget * 2**20 / (columns * 4 * 2)))

    def probes(self, rows: Tensor, neighbor: Tensor, recall: float) -> Tensor:
        """How many cells of its list each cell must look through, of shape :obj:`[num_cells]`.

        The same number finds the wanted share of the true neighbours of the given rows; a cell takes more where they
        would not hold enough candidates.
        """
        place = self.order.argsort(dim=1)
        needed = place[self.cell[rows].unsqueeze(1), self.cell[neighbor]].view(-1).sort()[0]
        common = needed[max(0, math.ceil(recall * needed.numel()) - 1)] + 1
        return torch.maximum(common, (self.total < self.count).sum(dim=1) + 1)

    def share_of_pairs(self, probes: Tensor) -> float:
        """Which share of all pairs of rows :meth:`search` looks at."""
        candidates = self.total.gather(1, probes.unsqueeze(1) - 1).view(-1)
        return float((self.size.double() * candidates).sum()) / self.cell.numel() ** 2

    def search(self, probes: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, their candidates and rough squared distances, of shape :obj:`[rows, count]`, a block at a time."""
        size = self.size.tolist()
        members, points = self.member.split(size), self.points.split(size)
        norms = self.points.square().sum(dim=1).split(size)
        for cell, count in enumerate(probes.tolist()):
            if size[cell] == 0:
                continue
            listed = self.order[cell, :count].tolist()
            candidate = torch.cat([members[i] for i in listed])
            norm, others = torch.cat([norms[i] for i in listed]), torch.cat([points[i] for i in listed])
            block = self._block(candidate.numel())
            for rows, part, own in zip(*(whole[cell].split(block) for whole in (members, points, norms)), strict=True):
                squared = torch.addmm(norm, part, others.t(), alpha=-2)
                rough, found = squared.topk(self.count, dim=1, largest=False)
                yield rows, candidate[found], rough + own.unsqueeze(1)
