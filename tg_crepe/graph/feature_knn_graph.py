from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from tg_crepe._checks import check_homogeneous
from tg_crepe.graph.knn import check_knn_options, knn_graph


@functional_transform("feature_knn_graph")
class FeatureKNNGraph(BaseTransform):
    r"""Builds the weighted nearest-neighbour graph of :obj:`data.x` (functional name: :obj:`feature_knn_graph`).

    It writes :obj:`data.edge_index` and :obj:`data.edge_weight`, and removes what belonged to the former edges
    (:obj:`edge_attr`, :obj:`adj_t`). See :func:`~tg_crepe.knn_graph` for the weights. Graphs of a
    :class:`~torch_geometric.data.Batch` are never joined: where there is a :obj:`data.batch`, neighbours are looked for
    in a node's own graph, and a graph of :obj:`k` nodes or fewer joins each to all its others.

    .. code-block:: python

        from tg_crepe import FeatureKNNGraph

        data = FeatureKNNGraph(k=20)(data)

    Args:
        k (int, optional): The number of neighbours. (default: :obj:`20`)
        metric (str, optional): :obj:`"cosine"`, :obj:`"euclidean"` or :obj:`"auto"`. (default: :obj:`"auto"`)
        backend (str, optional): The search. (default: :obj:`"auto"`)
        kernel (str, optional): Distances to weights. (default: :obj:`"gaussian"`)
        symmetrize (str, optional): How the two directions are combined. (default: :obj:`"max"`)
        recall (float, optional): The share of the true neighbours that an approximate search must find.
            (default: :obj:`0.99`)
    """

    def __init__(
        self,
        k: int = 20,
        metric: str = "auto",
        backend: str = "auto",
        kernel: str = "gaussian",
        symmetrize: str = "max",
        recall: float = 0.99,
    ) -> None:
        check_knn_options(k, metric, backend, kernel, symmetrize, recall)
        self.k = k
        self.metric = metric
        self.backend = backend
        self.kernel = kernel
        self.symmetrize = symmetrize
        self.recall = recall

    def forward(self, data: Data) -> Data:
        """Adds the graph to ``data``, which must have ``x``, and where the search was approximate its recall, as
        :obj:`neighbor_recall`."""
        check_homogeneous(data)
        if data.x is None:
            raise ValueError("'data.x' must hold features of shape [num_nodes, num_features], got None")
        batch = data.get("batch")
        graph = knn_graph(
            data.x, self.k, self.metric, self.backend, self.kernel, self.symmetrize, recall=self.recall, batch=batch
        )
        for stale in ("edge_attr", "adj_t", "neighbor_recall"):
            if stale in data:
                del data[stale]
        data.edge_index, data.edge_weight = graph
        if graph.recall is not None:
            data.neighbor_recall = graph.recall
        if isinstance(data, Batch) and hasattr(data, "_slice_dict"):  # a batch made by hand cannot be taken apart
            _slice_edges(data, batch)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(k={self.k}, metric={self.metric!r})"


def _slice_edges(data: Batch, batch: Tensor) -> None:
    """Tells a batch which of its new edges belong to which graph, so that it can be taken apart again."""
    count = torch.bincount(batch[data.edge_index[0]], minlength=data.num_graphs)
    place = torch.cat([count.new_zeros(1), count.cumsum(0)]).cpu()
    slices = {name: value for name, value in data._slice_dict.items() if name not in ("edge_attr", "adj_t")}
    incs = {name: value for name, value in data._inc_dict.items() if name in slices}
    data._slice_dict = {**slices, "edge_index": place, "edge_weight": place}
    data._inc_dict = {**incs, "edge_index": data.ptr[:-1].cpu(), "edge_weight": None}
