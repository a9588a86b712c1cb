from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.base import EnergyModel, model_repr
from tg_crepe.models.lgc import scores
from tg_crepe.solvers.trace import Trace


@functional_transform("nearest_neighbor")
class NearestNeighbor(EnergyModel):
    r"""The class of the nearest labelled node along the graph (functional name: :obj:`nearest_neighbor`).

    .. math::
        u_i^l = \frac{1}{\mathrm{dist}(i, \mathcal{N}^l)}, \qquad
        \mathrm{dist}(i, j) = \min_{\text{paths}} \sum_{e \in \text{path}} \frac{\bar w}{w_e},

    where :math:`\mathcal{N}^l` are the labelled nodes of class :math:`l` and :math:`\bar w` the mean weight, so that
    the scale of the weights does not matter. Its options are those of :class:`EnergyModel`.
    """

    distributed = False

    def _solve(self, task: LabelTask) -> Solution:
        distance, rounds = path_length(task.graph, task.sources > 0)
        # A class that no path reaches is at infinity, with closeness 0; a labelled node is at distance 0 of its own.
        closeness = 1 / distance.clamp(min=torch.finfo(distance.dtype).eps)
        trace = Trace()
        trace.append(step=rounds)
        return Solution(*scores(closeness, task), trace, "converged")

    def __repr__(self) -> str:
        return model_repr(self)


def path_length(graph: CanonicalGraph, source: Tensor) -> tuple[Tensor, int]:
    """The shortest path from every node to the sources of every column, by rounds of relaxation (Bellman–Ford), and the
    number of rounds; infinite where there is no path.

    Args:
        graph (CanonicalGraph): The graph; an edge has the length mean weight over weight.
        source (torch.Tensor): Bool of shape :obj:`[num_nodes, num_columns]`.
    """
    length = graph.edge_weight.mean() / graph.edge_weight
    distance = torch.where(source, 0.0, float("inf")).to(length.dtype)
    first, second = graph.edge_index
    rounds = 0
    while True:
        rounds += 1
        shorter = distance.clone()
        for here, there in ((first, second), (second, first)):
            through = distance[there] + length.unsqueeze(-1)
            shorter.scatter_reduce_(0, here.unsqueeze(-1).expand_as(through), through, reduce="amin")
        if torch.equal(shorter, distance):
            return distance, rounds
        distance = shorter
