from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix

from tg_crepe.label.prepared import Prepared
from tg_crepe.label.solve import Solved


class Neighbours:
    r"""What is near an item: labelled examples in the features, and votes along the edges.

    Args:
        x (numpy.ndarray): Features, of shape :obj:`[num_items, num_features]`.
        prepared (Prepared): The graph, and the metric that distances are taken in.
    """

    def __init__(self, x: np.ndarray, prepared: Prepared) -> None:
        self._x, self._placement = x, prepared.placement
        weight, (row, column) = prepared.edge_weight.numpy().astype(np.float32), prepared.edge_index.numpy()
        matrix = csr_matrix((weight, (row, column)), (len(x), len(x)))
        self._weights = matrix.maximum(matrix.T).tocsr()

    def nearest(self, item: int, among: np.ndarray, count: int) -> list[int]:
        """The items of ``among`` that are nearest to an item."""
        among = among[among != item]
        if not len(among):
            return []
        rows = self._placement.place(torch.from_numpy(self._x[np.append(among, item)])).numpy()
        distance = ((rows[:-1] - rows[-1]) ** 2).sum(axis=1)
        return [int(other) for other in among[np.argsort(distance, kind="stable")[:count]]]

    def outvoted(self, solved: Solved, count: int) -> list[tuple[int, int, float]]:
        r"""Labels that their neighbours outvote: the item, the class that they would give it, and its share of

        .. math::
            v_i^l = \sum_j w_{ij} P_j^l / \sum_j w_{ij},

        where :math:`P` are the soft labels of the neighbours, the most doubtful label first.
        """
        known = np.flatnonzero(solved.labelled)
        rows = self._weights[known]
        vote = np.asarray(rows @ solved.prob) / np.maximum(np.asarray(rows.sum(axis=1)), 1e-30)
        own = np.array([solved.columns.index(int(number)) for number in solved.label[known]], dtype=np.int64)
        best = vote.argmax(axis=1)
        mine, theirs = vote[np.arange(len(known)), own], vote.max(axis=1, initial=0)
        suspect = np.flatnonzero(best != own)
        suspect = suspect[np.argsort(mine[suspect] - theirs[suspect], kind="stable")[:count]]
        return [(int(known[i]), solved.columns[best[i]], float(theirs[i])) for i in suspect]
