from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph

#: Iterations after which conjugate gradients are given up where a band can be factorised: on kNN graphs they take a
#: hundred, on a path as many as it has nodes.
PATIENCE = 500

#: Numbers in a band, and multiplications of its factorisation (about ten seconds), at most.
_MOST_ENTRIES, _MOST_WORK = 3e7, 1e10


class BandedSystem:
    r"""Direct solves of :math:`(\operatorname{diag}(a) - W) x = b` on a long thin graph, positive definite.

    In the reverse Cuthill–McKee order all entries lie within a band around the diagonal, which the Cholesky
    factorisation keeps: :math:`n b^2` multiplications for :math:`n` nodes and a band of :math:`b`, 1 for a path. These
    are the graphs on which conjugate gradients take thousands of iterations, and some that are badly scaled.

    Args:
        graph (CanonicalGraph): The edges; its weights play no part.
    """

    def __init__(self, graph: CanonicalGraph) -> None:
        self.fits = graph.communicator.world_size == 1 and graph.edge_weight.device.type == "cpu"
        if not self.fits or graph.num_edges == 0:
            self.fits = False
            return
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        self._order = reverse_cuthill_mckee(graph.scipy_pattern(), symmetric_mode=True).astype("int64")
        place = torch.empty(graph.num_nodes, dtype=torch.long)
        place[torch.from_numpy(self._order)] = torch.arange(graph.num_nodes)
        first, second = place[graph.edge_index]
        self._column, self._distance = torch.minimum(first, second), (first - second).abs()
        self._width = int(self._distance.max())
        entries = graph.num_nodes * (self._width + 1)
        self.fits = entries <= _MOST_ENTRIES and entries * (self._width + 1) <= _MOST_WORK

    def solve(self, diagonal: Tensor, weight: Tensor, rhs: Tensor) -> Tensor | None:
        """The solution in double precision, or :obj:`None` where rounding leaves the matrix not positive definite.

        Args:
            diagonal (torch.Tensor): :math:`a`, of shape :obj:`[num_nodes]`.
            weight (torch.Tensor): The entries of :math:`W`, of shape :obj:`[num_edges]`.
            rhs (torch.Tensor): :math:`b`, of shape :obj:`[num_nodes, num_columns]`.
        """
        import numpy as np
        from scipy.linalg import solveh_banded

        band = np.zeros((self._width + 1, diagonal.numel()))
        band[0] = diagonal.double().numpy()[self._order]
        band[self._distance.numpy(), self._column.numpy()] = -weight.double().numpy()
        try:
            found = solveh_banded(band, rhs.double().numpy()[self._order], lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(found).all():
            return None
        x = np.empty_like(found)
        x[self._order] = found
        return torch.from_numpy(x)
