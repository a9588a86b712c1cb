"""Nearest neighbours of new points, and of rows that are sparse: scikit-learn's search, then direct distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from tg_crepe.graph.metric import Placement, choose_placement, projection
from tg_crepe.graph.neighbors import power_of_two

#: Candidates beyond k: the search rounds its distances, so a few more are looked at.
_SPARE = 8

#: Numbers of differences that are held at a time.
_SLICE = 1 << 23


def place(X: Any, metric: str, factor: np.ndarray | None) -> Any:
    """The points between which Euclidean distances are taken: as given, of unit length, or with scaled columns."""
    if metric == "cosine":
        return normalize(X)
    if factor is None:
        return X
    return sparse.csr_array(X.multiply(factor)) if sparse.issparse(X) else X * factor


def choose_sparse(X: Any) -> Placement:
    """The choice of :func:`~tg_crepe.graph.metric.choose_metric` for a sparse matrix, which is never made dense."""
    scale = power_of_two(float(abs(X).max()))
    X = sparse.csr_array(X, dtype=np.float64) / scale
    X.sum_duplicates()
    mean = np.asarray(X.mean(axis=0)).ravel()
    # The entries that are stored, then the zeros, each of which is as far from the mean as the mean is large.
    deviation = X.copy()
    deviation.data = np.square(X.data - mean[X.indices])
    stored = np.bincount(X.indices, minlength=X.shape[1])
    variance = (np.asarray(deviation.sum(axis=0)).ravel() + (X.shape[0] - stored) * mean**2) / X.shape[0]
    variance[X.max(axis=0).toarray().ravel() == X.min(axis=0).toarray().ravel()] = 0
    key = X @ projection(X.shape[1]).numpy()

    def distances(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = torch.from_numpy((X[rows.numpy()] @ X[rows.numpy()].T).toarray())
        length = product.diagonal().clamp(min=torch.finfo(torch.float64).tiny)
        cosine = product / (length.unsqueeze(1) * length).sqrt()
        euclidean, cosine = (one.diagonal().unsqueeze(1) + one.diagonal() - 2 * one for one in (product, cosine))
        return euclidean, cosine

    return choose_placement(torch.from_numpy(variance), torch.from_numpy(key), distances, scale)


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
