"""Nearest neighbours of new points, and of rows that are sparse: scikit-learn's search, then direct distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

#: Candidates beyond k: the search rounds its distances, so a few more are looked at.
_SPARE = 8

#: Numbers of differences that are held at a time.
_SLICE = 1 << 23


def place(X: Any, metric: str) -> Any:
    """The points between which Euclidean distances are taken: as given, or at unit length for the cosine metric."""
    return normalize(X) if metric == "cosine" else X


def nearest(points: Any, queries: Any, k: int, leave_out_self: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Indices and ascending distances of the ``k`` nearest ``points`` of every query, both of shape [n_queries, k].

    Args:
        points: Rows of numbers, dense or sparse.
        queries: Rows of the same kind.
        k: How many, at most as many as there are.
        leave_out_self: Whether the queries are the points themselves, which are not their own neighbours.
    """
    wanted = min(k + _SPARE + leave_out_self, points.shape[0])
    found = NearestNeighbors(n_neighbors=wanted).fit(points).kneighbors(queries, return_distance=False)
    if leave_out_self:
        own = found == np.arange(len(found))[:, None]
        own[~own.any(axis=1), -1] = True  # hidden behind its equals
        found = found[~own].reshape(len(found), -1)
    distance = _distances(points, queries, found)
    order = np.lexsort((found, distance), axis=1)  # equal distances by index, so that the answer is reproducible
    return np.take_along_axis(found, order, axis=1)[:, :k], np.take_along_axis(distance, order, axis=1)[:, :k]


def _distances(points: Any, queries: Any, found: np.ndarray) -> np.ndarray:
    """Distances by direct differences: the search's own are rounded, and equal rows must be at distance 0."""
    answer = np.empty(found.shape)
    step = max(1, _SLICE // max(1, found.shape[1] * (1 if sparse.issparse(points) else points.shape[1])))
    for start in range(0, len(found), step):
        rows = slice(start, start + step)
        here = np.repeat(np.arange(start, min(start + step, len(found))), found.shape[1])
        difference = queries[here] - points[found[rows].ravel()]
        if sparse.issparse(difference):
            squared = np.asarray(difference.multiply(difference).sum(axis=1))
        else:
            squared = np.square(difference, dtype=np.float64).sum(axis=1)
        answer[rows] = np.sqrt(squared.reshape(-1, found.shape[1]))
    return answer
