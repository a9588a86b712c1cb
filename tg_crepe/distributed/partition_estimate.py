from __future__ import annotations

import numpy as np
import torch

from tg_crepe.distributed.cells import placed
from tg_crepe.distributed.partition_rows import FeatureRows

#: Rows whose neighbours are searched.
_SAMPLE = 500


def estimated_cut(rows: FeatureRows, owner: np.ndarray, k: int, metric: str, seed: int) -> float:
    r"""The share of the edges to nearest neighbours that will be between two ranks, from a random sample :math:`S`.

    .. math::
        \frac{1}{|S| k} \sum_{i \in S} \#\{j \in N_k(i) : r_i \neq r_j\}

    Args:
        rows (FeatureRows): The features.
        owner (numpy.ndarray): The rank :math:`r_i` of every row, of shape :obj:`[num_nodes]`.
        k (int): The number of neighbours.
        metric (str): :obj:`"cosine"` or :obj:`"euclidean"`.
        seed (int): The seed of the sample.
    """
    drawn = min(_SAMPLE, rows.num_nodes)
    sample = np.sort(np.random.default_rng(seed).choice(rows.num_nodes, drawn, replace=False))
    query = torch.from_numpy(placed(rows.take(sample), metric))
    best = torch.full((len(sample), k), float("inf"))
    foreign = torch.zeros(len(sample), k, dtype=torch.bool)
    for start, block in rows.blocks():
        point = torch.from_numpy(placed(block, metric))
        squared = torch.addmm(point.square().sum(dim=1), query, point.t(), alpha=-2)
        inside = np.flatnonzero((sample >= start) & (sample < start + len(block)))
        squared[inside, sample[inside] - start] = float("inf")  # nobody is their own neighbour
        near, column = squared.topk(min(k, len(block)), dim=1, largest=False)
        far = torch.from_numpy(owner[start + column.numpy()] != owner[sample][:, None])
        best, order = torch.cat([best, near], dim=1).topk(k, dim=1, largest=False)
        foreign = torch.cat([foreign, far], dim=1).gather(1, order)
    return float(foreign.double().mean())
