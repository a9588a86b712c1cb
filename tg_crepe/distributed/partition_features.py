"""Dividing features by where they lie: many small cells, near ones packed onto the same rank."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from tqdm.auto import tqdm

from tg_crepe._checks import check_choice, check_count
from tg_crepe._files import atomic_folder
from tg_crepe._optional import require
from tg_crepe.distributed.feature_files import FeatureRows, NodeLabels, write_features
from tg_crepe.distributed.manifest import ShardError
from tg_crepe.distributed.partition import check_parts, metis
from tg_crepe.graph.metric import METRICS, Placement, choose_placement, describe_columns, squared_distances
from tg_crepe.warnings import GraphWarning

#: Cells per part: the more, the more even and the nearer to the shape of the data the parts are.
_CELLS_PER_PART = 64

#: The fewest rows of a cell in the mean, for small data.
_ROWS_PER_CELL = 8

#: Rows per cell that its centre is learnt from, and rows of a batch.
_LEARNT_ROWS, _BATCH = 256, 8192

#: MiB of distances to the centres at a time.
_DISTANCES = 64

#: How many of the centres nearest to a row say that their cells are near each other.
_VOTES = 4

#: Rows whose neighbours are searched for the estimate of the cut.
_SAMPLE = 500


@dataclass(frozen=True)
class FeaturePartition:
    """How features were divided.

    Args:
        owner (numpy.ndarray): The rank of every node, of shape :obj:`[num_nodes]`.
        num_cells (int): The number of cells that were dealt out.
        cut (float): The share of the edges that will be between two ranks, estimated from a few hundred rows.
        imbalance (float): Rows of the largest rank over the mean; 1 is even.
    """

    owner: np.ndarray
    num_cells: int
    cut: float
    imbalance: float


def partition_features(
    features: str | os.PathLike[str] | np.ndarray,
    folder: str | os.PathLike[str],
    parts: int,
    k: int = 20,
    metric: str = "auto",
    labels: NodeLabels | None = None,
    seed: int = 0,
) -> FeaturePartition:
    """Divides rows of features among ranks by where they lie, and writes a folder with one part per rank.

    Mini-batch k-means finds many small cells, which are packed onto the ranks by size and nearness. The features are
    read in blocks, from front to back a few times, and never held as a whole. The graph is built from the folder
    later, by all ranks together (:func:`~tg_crepe.distributed.build_graph`).

    .. code-block:: python

        partition_features("features.npy", "shards", parts=8)

    Args:
        features (path-like or numpy.ndarray): A .npy file, or an array, of shape :obj:`[num_nodes, num_features]`;
            taken in single precision.
        folder (path-like): The folder to write; one that is there is replaced when the new one is whole.
        parts (int): The number of ranks.
        k (int, optional): The number of neighbours of the graph to come. (default: :obj:`20`)
        metric (str, optional): Its metric, :obj:`"cosine"`, :obj:`"euclidean"`, or :obj:`"auto"`, which is chosen once,
            as by :func:`~tg_crepe.knn_graph`, and kept in the manifest. (default: :obj:`"auto"`)
        labels (NodeLabels, optional): Labels and names of the nodes. (default: :obj:`None`)
        seed (int, optional): The seed. (default: :obj:`0`)
    """
    check_choice("metric", metric, METRICS)
    rows = FeatureRows(features if isinstance(features, np.ndarray) else Path(features))
    check_count("k", k, high=rows.num_nodes - 1, high_name="num_nodes - 1")
    check_parts(parts, rows.num_nodes)
    placement = _choose_placement(rows) if metric == "auto" else Placement(metric)
    if placement.note:
        warnings.warn(placement.note, GraphWarning, stacklevel=2)
    cells = find_cells(rows, parts, placement, seed)
    owner = cells.pack(parts, seed)
    with atomic_folder(Path(folder)) as unfinished:
        write_features(unfinished, rows, owner, parts, k, placement, labels or NodeLabels())
    size = np.bincount(owner, minlength=parts)
    cut = estimate_cut(rows, owner, k, placement, seed)
    return FeaturePartition(owner, cells.near.shape[0], cut, float(size.max() / size.mean()))


class Cells(NamedTuple):
    """Small groups of rows that lie together.

    Attributes:
        cell (numpy.ndarray): The cell of every row, of shape :obj:`[num_nodes]`.
        near (scipy.sparse.csr_matrix): How many rows lie near both of two cells, symmetric, without a diagonal, of
            shape :obj:`[num_cells, num_cells]`.
    """

    cell: np.ndarray
    near: csr_matrix

    def pack(self, parts: int, seed: int) -> np.ndarray:
        """The part of every row: whole cells, near ones together, about as many rows in every part.

        Every row has :math:`k` neighbours, so parts with as many rows are expected to have as many edges.
        """
        size = np.bincount(self.cell)
        return metis(self.near.indptr, self.near.indices, size, self.near.data, parts, seed)[self.cell]


def find_cells(rows: FeatureRows, parts: int, placement: Placement, seed: int) -> Cells:
    """Divides rows into cells by mini-batch k-means, a block of rows at a time.

    The centres are learnt from random rows, then every row goes to its nearest one. Two cells are near each other
    when rows of the one have the centre of the other among their nearest.

    Args:
        rows (FeatureRows): The rows.
        parts (int): The number of parts that the cells are for.
        placement (Placement): The metric.
        seed (int): The seed.
    """
    count = max(parts, min(_CELLS_PER_PART * parts, rows.num_nodes // _ROWS_PER_CELL))
    centre = torch.from_numpy(_learn_centres(rows, count, placement, seed))
    norm = centre.square().sum(dim=1)
    cell = np.empty(rows.num_nodes, np.int32)
    votes = csr_matrix((count, count), dtype=np.int64)
    step = max(1, _DISTANCES * 2**20 // (4 * count))
    for start, block in tqdm(rows.blocks(), "cells", unit="block", delay=3, disable=None, leave=False):
        _check_finite(block, np.arange(start, start + len(block)))
        points = torch.from_numpy(_place(block, placement)).split(step)
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


def _learn_centres(rows: FeatureRows, count: int, placement: Placement, seed: int) -> np.ndarray:
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
        kmeans.partial_fit(_place(block, placement))
    return kmeans.cluster_centers_.astype(np.float32)


def _choose_placement(rows: FeatureRows) -> Placement:
    """The choice of :func:`~tg_crepe.graph.metric.choose_metric`, from one reading and a few thousand rows."""

    def blocks() -> Iterator[torch.Tensor]:
        for start, block in rows.blocks():
            _check_finite(block, np.arange(start, start + len(block)))
            yield torch.from_numpy(block).double()

    def distances(number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return squared_distances(torch.from_numpy(rows.take(number.numpy())).double())

    return choose_placement(*describe_columns(blocks()), distances)


def _place(block: np.ndarray, placement: Placement) -> np.ndarray:
    """Rows where the metric sees them, in single precision: on the unit sphere for the cosine, except zero rows."""
    if placement.factor is not None:
        return (block * placement.factor.numpy()).astype(np.float32)
    if placement.metric != "cosine":
        return block
    norm = np.linalg.norm(block.astype(np.float64), axis=1, keepdims=True)
    return (block / np.where(norm > 0, norm, 1)).astype(np.float32)


def _check_finite(block: np.ndarray, number: np.ndarray) -> None:
    """Raise if a row holds NaN or infinity, and say which one by its number."""
    bad = number[~np.isfinite(block).all(axis=1)]
    if len(bad):
        raise ShardError(f"'features' must be finite in single precision, got NaN or infinity in row {bad[0]}")


def estimate_cut(rows: FeatureRows, owner: np.ndarray, k: int, placement: Placement, seed: int) -> float:
    r"""The share of the edges to nearest neighbours that will be between two ranks, from a random sample :math:`S`.

    .. math::
        \frac{1}{|S| k} \sum_{i \in S} \#\{j \in N_k(i) : r_i \neq r_j\}

    Args:
        rows (FeatureRows): The features.
        owner (numpy.ndarray): The rank :math:`r_i` of every row, of shape :obj:`[num_nodes]`.
        k (int): The number of neighbours.
        placement (Placement): The metric.
        seed (int): The seed of the sample.
    """
    drawn = min(_SAMPLE, rows.num_nodes)
    sample = np.sort(np.random.default_rng(seed).choice(rows.num_nodes, drawn, replace=False))
    query = torch.from_numpy(_place(rows.take(sample), placement))
    best = torch.full((len(sample), k), float("inf"))
    foreign = torch.zeros(len(sample), k, dtype=torch.bool)
    for start, block in rows.blocks():
        point = torch.from_numpy(_place(block, placement))
        squared = torch.addmm(point.square().sum(dim=1), query, point.t(), alpha=-2)
        inside = np.flatnonzero((sample >= start) & (sample < start + len(block)))
        squared[inside, sample[inside] - start] = float("inf")  # nobody is their own neighbour
        near, column = squared.topk(min(k, len(block)), dim=1, largest=False)
        far = torch.from_numpy(owner[start + column.numpy()] != owner[sample][:, None])
        best, order = torch.cat([best, near], dim=1).topk(k, dim=1, largest=False)
        foreign = torch.cat([foreign, far], dim=1).gather(1, order)
    return float(foreign.double().mean())
