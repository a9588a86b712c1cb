from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import require
from tg_crepe.graph.compressed_lists import FEATURES_PER_CODE, CompressedLists
from tg_crepe.graph.neighbors import SPARE

#: Rounds of k-means and rows a list from which its centre is learnt: more gain little.
_ROUNDS, _ROWS_PER_CENTRE = 6, 64

#: Rows that are searched at a time.
_BLOCK = 4096

#: Share of all pairs beyond which the lists save no time: a pair costs six times as much as in a flat search.
_MOST_PAIRS = 0.12

#: Pairs per row from which on the rows are compressed, what it costs to rank the candidates then, and a pair of codes,
#: in pairs of a flat search.
_COMPRESSED_FROM, _RANKING, _CODE = 6_000, 20_000, 1.3

#: Features from which on: sums of fewer codes are too often the same to say which rows are near.
_MANY_FEATURES = 16


class InvertedLists:
    r"""The inverted lists of faiss: rows grouped around :math:`2 \sqrt{N}` centres, and every row searched in the lists
    of the centres nearest to it. Rows of one list are searched together: what they read is in the cache. Where a row
    has so many others in its lists that it pays, they are searched as codes
    (:class:`~tg_crepe.graph.compressed_lists.CompressedLists`).

    Args:
        points (torch.Tensor): The rows in single precision, on the CPU, of shape :obj:`[num_nodes, num_features]`.
        k (int): The number of neighbours; the search answers with a few more, or several times as many.
    """

    def __init__(self, points: Tensor, k: int) -> None:
        faiss = require("faiss", extra="knn")
        points = torch.nn.functional.pad(points, (0, -points.size(1) % FEATURES_PER_CODE))  # which moves no row
        self.points = points.contiguous().numpy()
        self.count = min(k + SPARE + 1, len(self.points))  # one more: a row usually finds itself
        self.most_pairs = _MOST_PAIRS
        num_lists = max(1, min(len(self.points), math.isqrt(4 * len(self.points))))
        self.centres = faiss.IndexFlatL2(points.size(1))
        self.index = faiss.IndexIVFFlat(self.centres, points.size(1), num_lists)
        self.index.cp.niter, self.index.cp.seed = _ROUNDS, 0
        self.index.cp.min_points_per_centroid = 1
        self.index.cp.max_points_per_centroid = _ROWS_PER_CENTRE
        self.index.train(self.points)
        self.list = self.centres.search(self.points, 1)[1][:, 0]
        self.size = np.bincount(self.list, minlength=num_lists)

    def probes(self, rows: Tensor, neighbor: Tensor, recall: float) -> int:
        """How many lists find the wanted share of the true neighbours of the given rows."""
        order = self.centres.search(self.points[rows.numpy()], self.index.nlist)[1]
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(self.index.nlist)[None, :], axis=1)
        needed = np.sort(np.take_along_axis(place, self.list[neighbor.numpy()], axis=1), axis=None)
        self._sample = self.size[order]
        probes = int(needed[max(0, math.ceil(recall * needed.size) - 1)]) + 1
        self._choose_index(rows.numpy(), neighbor.numpy(), probes, recall)
        return probes

    def share_of_pairs(self, probes: int) -> float:
        """Which share of all pairs of rows :meth:`search` looks at, by the rows that :meth:`probes` was asked for."""
        return float(self._sample[:, :probes].sum(axis=1).mean()) / len(self.points)

    def _choose_index(self, rows: np.ndarray, neighbor: np.ndarray, probes: int, recall: float) -> None:
        """Compresses the rows where that saves time and the candidates miss at most half as many again of the
        neighbours of some rows as the lists may."""
        number, share = len(self.points), self.share_of_pairs(probes)
        bearable = (6 * _MOST_PAIRS - _RANKING / number) / _CODE
        pays = share * number >= _COMPRESSED_FROM and share <= bearable
        if pays and self.points.shape[1] >= _MANY_FEATURES:
            codes = CompressedLists(self.centres, self.points, self.list)
            enough = codes.enough(rows, neighbor, probes, self.count, 1 - 1.5 * (1 - recall))
            if enough is not None:
                self.index, self.count, self.most_pairs = codes.index, enough, bearable

    def search(self, probes: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, their candidates and rough squared distances, of shape :obj:`[rows, count]`, a block at a time."""
        if self.index.ntotal == 0:
            faiss: Any = require("faiss", extra="knn")
            lists = faiss.swig_ptr(np.ascontiguousarray(self.list))
            self.index.add_core(len(self.points), faiss.swig_ptr(self.points), None, lists)
        pending = np.argsort(self.list, kind="stable")
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
