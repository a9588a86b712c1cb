from __future__ import annotations

from typing import Any

import numpy as np

from tg_crepe._optional import require

#: Features that share a code, and its bits: one of 16 places in a plane.
FEATURES_PER_CODE, _BITS = 2, 4

#: Candidates that are tried, in units of the fewest: rounded distances put a neighbour some places further back.
_MULTIPLES = (2, 4, 8, 16, 32)


class CompressedLists:
    r"""Inverted lists in which every two features of a row are the nearest of 16 places in their plane
    (`"Quicker ADC" <https://arxiv.org/abs/1812.09162>`_).

    .. math::
        \|x - y\|^2 \approx \sum_m T_m[c_m(y)], \qquad T_m[c] = \|x_m - p_{mc}\|^2,

    where :math:`p_{mc}` are the places of the :math:`m`-th plane, by k-means, and :math:`c_m(y)` is the one nearest to
    :math:`y_m`. The tables :math:`T_m` stay in registers, so that a pair takes a fifth of the time of a direct
    distance, or a tenth where the rows do not fit the cache. What is found are candidates, several times as many as
    neighbours are wanted, for their direct distances to rank.

    Args:
        centres (faiss.IndexFlatL2): The centres of the lists.
        points (numpy.ndarray): The rows in single precision, of shape :obj:`[num_nodes, num_features]`, with an even
            number of features.
        member (numpy.ndarray): The list of every row, of shape :obj:`[num_nodes]`.
    """

    def __init__(self, centres: Any, points: np.ndarray, member: np.ndarray) -> None:
        faiss = require("faiss", extra="knn")
        planes = points.shape[1] // FEATURES_PER_CODE
        plain = faiss.IndexIVFPQ(centres, points.shape[1], centres.ntotal, planes, _BITS)
        plain.by_residual = False  # tables of a query serve all of its lists
        plain.train(points)  # the places alone: the centres are there
        plain.add_core(len(points), faiss.swig_ptr(points), None, faiss.swig_ptr(np.ascontiguousarray(member)))
        self._points = points
        self.index = faiss.IndexIVFPQFastScan(plain)  # the codes of 32 rows beside each other

    def enough(self, rows: np.ndarray, neighbor: np.ndarray, probes: int, least: int, recall: float) -> int | None:
        """How many candidates hold the wanted share of the true neighbours of some rows; :obj:`None` if no number that
        would save time does.

        Args:
            rows (numpy.ndarray): The rows, of shape :obj:`[num_rows]`.
            neighbor (numpy.ndarray): Their true neighbours, of shape :obj:`[num_rows, k]`.
            probes (int): The lists that are searched.
            least (int): The fewest candidates that there can be.
            recall (float): The share.
        """
        self.index.nprobe = probes
        for count in (least * multiple for multiple in _MULTIPLES):
            if count >= len(self._points):
                return None
            found = self.index.search(self._points[rows], count)[1]
            hit = [np.isin(own, near).mean() for own, near in zip(neighbor, found, strict=True)]
            if np.mean(hit) >= recall:
                return count
        return None
