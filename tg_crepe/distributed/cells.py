from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from tqdm.auto import tqdm

from tg_crepe._optional import require
from tg_crepe.distributed.manifest import ShardError
from tg_crepe.distributed.partition import metis
from tg_crepe.distributed.partition_rows import FeatureRows

#: Cells a part: the more, the more even and the nearer to the shape of the data the parts are.
_CELLS_PER_PART = 64

#: The fewest rows of a cell in the mean, for small data.
_ROWS_PER_CELL = 8

#: Rows a cell from which its centre is learnt, and rows of a batch.
_LEARNT_ROWS, _BATCH = 256, 8192

#: MiB of distances to the centres at a time.
_DISTANCES = 64

#: How many of the centres nearest to a row say that their cells are near each other.
_VOTES = 4


class Cells(NamedTuple):
    """Small groups of rows that lie together.

    Args:
        cell (numpy.ndarray): The cell of every row, of shape :obj:`[num_nodes]`.
        near (scipy.sparse.csr_matrix): How many rows lie near both of two cells, symmetric, without a diagonal, of
            shape :obj:`[num_cells, num_cells]`.
    """

    cell: np.ndarray
    near: csr_matrix

    def packed(self, parts: int, seed: int) -> np.ndarray:
        """The part of every row: whole cells, near ones together, about as many rows in every part.

        Every row has :math:`k` neighbours, so parts with as many rows are expected to have as many edges.
        """
        size = np.bincount(self.cell)
        return metis(self.near.indptr, self.near.indices, size, self.near.data, parts, seed)[self.cell]


def find_cells(rows: FeatureRows, parts: int, metric: str, seed: int) -> Cells:
    """Divides rows into cells by mini-batch k-means, a block of rows at a time.

    The centres are learnt from random rows, then every row goes to its nearest one. Two cells are near each other
    when rows of the one have the centre of the other among their nearest.

    Args:
        rows (FeatureRows): The rows.
        parts (int): The number of parts that the cells are for.
        metric (str): :obj:`"cosine"` or :obj:`"euclidean"`.
        seed (int): The seed.
    """
    count = max(parts, min(_CELLS_PER_PART * parts, rows.num_nodes // _ROWS_PER_CELL))
    centre = torch.from_numpy(_learn_centres(rows, count, metric, seed))
    norm = centre.square().sum(dim=1)
    cell = np.empty(rows.num_nodes, np.int32)
    votes = csr_matrix((count, count), dtype=np.int64)
    step = max(1, _DISTANCES * 2**20 // (4 * count))
    for start, block in tqdm(rows.blocks(), "cells", unit="block", delay=3, disable=None, leave=False):
        _check_finite(block, np.arange(start, start + len(block)))
        points = torch.from_numpy(placed(block, metric)).split(step)
        squared = (torch.addmm(norm, part, centre.t(), alpha=-2) for part in points)
        nearest = torch.cat([part.topk(min(_VOTES, count), dim=1, largest=False)[1] for part in squared]).numpy()
        cell[start : start + len(block)] = nearest[:, 0]
        own, other = np.broadcast_arrays(nearest[:, :1], nearest[:, 1:])
        votes += csr_matrix((np.ones(own.size, np.int64), (own.ravel(), other.ravel())), (count, count))
    return _cut_large(cell, votes + votes.T, -(-rows.num_nodes // (_CELLS_PER_PART // 4 * parts)))


def _cut_large(cell: np.ndarray, near: csr_matrix, most: int) -> Cells:
    """Cells of at most so many rows, and no empty ones.

    Thousands of equal rows stand in one cell, which no centre would divide.
    """
    size = np.bincount(cell, minlength=near.shape[0])
    place = np.empty(len(cell), np.int64)  # within its cell
    place[np.argsort(cell, kind="stable")] = np.arange(len(cell)) - np.repeat(size.cumsum() - size, size)
    stride = int(size.max()) // most + 1
    piece, number = np.unique(cell * stride + place // most, return_inverse=True)
    origin = piece // stride
    share = np.bincount(number) / size[origin]
    belongs = csr_matrix((np.ones(len(piece)), (np.arange(len(piece)), origin)), (len(piece), len(size)))
    # A vote is shared among the pieces, and the pieces of a cell are as near as can be.
    shared = belongs.multiply(share[:, None]).tocsr()
    near = (shared @ near @ shared.T + most * (belongs @ belongs.T)).tocsr()
    near.setdiag(0)
    near.eliminate_zeros()
    near.data = np.ceil(near.data).astype(np.int64)
    return Cells(number, near)


def _learn_centres(rows: FeatureRows, count: int, metric: str, seed: int) -> np.ndarray:
    """The centres of the cells, float32 of shape :obj:`[num_cells, num_features]`."""
    cluster = require("sklearn.cluster", extra="distributed")
    drawn = min(rows.num_nodes, max(_BATCH, _LEARNT_ROWS * count))
    order = np.random.default_rng(seed).choice(rows.num_nodes, drawn, replace=False)
    batch = max(_BATCH, 4 * count)
    kmeans = cluster.MiniBatchKMeans(count, batch_size=batch, n_init=1, random_state=seed)
    # No batch is much smaller than the others: the first one must hold enough rows to start from.
    for part in np.array_split(order, max(1, len(order) // batch)):
        number = np.sort(part)
        block = rows.take(number)
        _check_finite(block, number)
        kmeans.partial_fit(placed(block, metric))
    return kmeans.cluster_centers_.astype(np.float32)


def placed(block: np.ndarray, metric: str) -> np.ndarray:
    """Rows where the metric sees them: on the unit sphere for the cosine, except zero rows."""
    if metric != "cosine":
        return block
    norm = np.linalg.norm(block.astype(np.float64), axis=1, keepdims=True)
    return (block / np.where(norm > 0, norm, 1)).astype(np.float32)


def _check_finite(block: np.ndarray, number: np.ndarray) -> None:
    """Raise if a row holds NaN or infinity, and say which one by its number."""
    bad = number[~np.isfinite(block).all(axis=1)]
    if len(bad):
        raise ShardError(f"'features' must be finite in single precision, got NaN or infinity in row {bad[0]}")
