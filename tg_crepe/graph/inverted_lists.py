from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import require
from tg_crepe.graph.neighbors import SPARE

#: Rounds of k-means and rows a list from which its centre is learnt: more gain little.
_ROUNDS, _ROWS_PER_CENTRE = 6, 64

#: Rows that are searched at a time.
_BLOCK = 16_384


class InvertedLists:
    r"""The inverted lists of faiss: rows grouped around :math:`2 \sqrt{N}` centres, and every row searched in the lists
    of the centres nearest to it.

    Args:
        points (torch.Tensor): The rows in single precision, on the CPU, of shape :obj:`[num_nodes, num_features]`.
        k (int): The number of neighbours; the search answers with a few more.
    """

    #: Share of all pairs beyond which the lists save no time: a pair costs six times as much as in a flat search.
    most_pairs = 0.12

    def __init__(self, points: Tensor, k: int) -> None:
        faiss = require("faiss", extra="knn")
        self.points = points.contiguous().numpy()
        self.count = min(k + SPARE + 1, len(self.points))  # one more: a row usually finds itself
        num_lists = max(1, min(len(self.points), math.isqrt(4 * len(self.points))))
        self.centres = faiss.IndexFlatL2(points.size(1))
        self.index = faiss.IndexIVFFlat(self.centres, points.size(1), num_lists)
        self.index.cp.niter, self.index.cp.seed = _ROUNDS, 0
        self.index.cp.min_points_per_centroid = 1
        self.index.cp.max_points_per_centroid = _ROWS_PER_CENTRE
        self.index.train(self.points)
        self.list = self.centres.search(self.points, 1)[1][:, 0]
        self.index.add_core(
            len(self.points),
            faiss.swig_ptr(self.points),
            None,
            faiss.swig_ptr(np.ascontiguousarray(self.list)),
        )
        self.size = np.bincount(self.list, minlength=num_lists)

    def probes(self, rows: Tensor, neighbor: Tensor, recall: float) -> int:
        """How many lists find the wanted share of the true neighbours of the given rows."""
        order = self.centres.search(self.points[rows.numpy()], self.index.nlist)[1]
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(self.index.nlist)[None, :], axis=1)
        needed = np.sort(np.take_along_axis(place, self.list[neighbor.numpy()], axis=1), axis=None)
        self._sample = self.size[order]
        return int(needed[max(0, math.ceil(recall * needed.size) - 1)]) + 1

    def share_of_pairs(self, probes: int) -> float:
        """Which share of all pairs of rows :meth:`search` looks at, by the rows that :meth:`probes` was asked for."""
        return float(self._sample[:, :probes].sum(axis=1).mean()) / len(self.points)

    def search(self, probes: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, their candidates and rough squared distances, of shape :obj:`[rows, count]`, a block at a time."""
        pending = np.arange(len(self.points))
        while pending.size:
            short = []
            self.index.nprobe = min(probes, self.index.nlist)
            for start in range(0, pending.size, _BLOCK):
                rows = pending[start : start + _BLOCK]
                rough, found = self.index.search(self.points[rows], self.count)
                full = found[:, -1] >= 0  # else its lists hold too few rows, and it is searched in more of them
                short.append(rows[~full])
                if full.any():
                    yield tuple(torch.from_numpy(part[full]) for part in (rows, found, rough))  # type: ignore[misc]
            pending, probes = np.concatenate(short), 2 * probes
