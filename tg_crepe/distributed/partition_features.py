from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tg_crepe._checks import check_choice, check_count
from tg_crepe._files import atomic_folder
from tg_crepe.distributed.cells import find_cells
from tg_crepe.distributed.partition import check_parts
from tg_crepe.distributed.partition_estimate import estimated_cut
from tg_crepe.distributed.partition_files import NodeLabels, write_features
from tg_crepe.distributed.partition_rows import FeatureRows
from tg_crepe.graph.knn import METRICS


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
    metric: str = "cosine",
    labels: NodeLabels | None = None,
    seed: int = 0,
) -> FeaturePartition:
    """Divides rows of features among ranks by where they lie, and writes a folder with one part a rank.

    Mini-batch k-means finds many small cells, which are packed onto the ranks by size and nearness. The features are
    read in blocks, from front to back twice, and never held as a whole. The graph is built from the folder later, by
    all ranks together (:func:`~tg_crepe.distributed.build_graph`).

    .. code-block:: python

        partition_features("features.npy", "shards", parts=8)

    Args:
        features (path-like or numpy.ndarray): A .npy file, or an array, of shape :obj:`[num_nodes, num_features]`;
            taken in single precision.
        folder (path-like): The folder to write; one that is there is replaced when the new one is whole.
        parts (int): The number of ranks.
        k (int, optional): The number of neighbours of the graph to come. (default: :obj:`20`)
        metric (str, optional): Its metric, :obj:`"cosine"` or :obj:`"euclidean"`. (default: :obj:`"cosine"`)
        labels (NodeLabels, optional): Labels and names of the nodes. (default: :obj:`None`)
        seed (int, optional): The seed. (default: :obj:`0`)
    """
    check_choice("metric", metric, METRICS)
    rows = FeatureRows(features if isinstance(features, np.ndarray) else Path(features))
    check_count("k", k, high=rows.num_nodes - 1, high_name="num_nodes - 1")
    check_parts(parts, rows.num_nodes)
    cells = find_cells(rows, parts, metric, seed)
    owner = cells.packed(parts, seed)
    with atomic_folder(Path(folder)) as unfinished:
        write_features(unfinished, rows, owner, parts, k, metric, labels or NodeLabels())
    size = np.bincount(owner, minlength=parts)
    cut = estimated_cut(rows, owner, k, metric, seed)
    return FeaturePartition(owner, cells.near.shape[0], cut, float(size.max() / size.mean()))
