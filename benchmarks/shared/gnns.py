"""The graph networks of PyG's examples, at their settings, made for one graph whose features are mostly zeros.

Their first layer multiplies the stored entries alone, and drops out those: zeros stay zero, so this is what dropout and
a dense layer do, many times quicker. The settings are those of ``examples/gcn.py``, ``gat.py``,
``correct_and_smooth.py`` and ``benchmark/citation/appnp.py`` of PyG, but for the choice of the best epoch by validation
labels, of which there are none here: the last epoch counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP as Propagation
from torch_geometric.nn import GATConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from tg_crepe.graph.sparse import sparse_csr


class _SparseProduct(torch.autograd.Function):
    """The product of a sparse matrix with weights, whose gradient is one with its transpose."""

    @staticmethod
    def forward(ctx, value, rowptr, col, order, colptr, row, shape, weight):  # type: ignore[no-untyped-def]
        """The product."""
        ctx.save_for_backward(value[order], colptr, row)
        ctx.shape = shape
        return sparse_csr(rowptr, col, value, shape) @ weight

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """The gradient of the weights."""
        value, colptr, row = ctx.saved_tensors
        transposed = sparse_csr(colptr, row, value, ctx.shape[::-1])
        return (*[None] * 7, transposed @ gradient)


class SparseInput(nn.Module):
    """Dropout of the features and a linear layer without bias.

    Args:
        x (torch.Tensor): The features, of shape :obj:`[num_nodes, num_features]`.
        out_channels (int): The width of the layer.
        dropout (float): The share of the entries that are dropped.
    """

    def __init__(self, x: Tensor, out_channels: int, dropout: float) -> None:
        super().__init__()
        matrix = csr_array(x.numpy())
        numbered = matrix.copy()
        numbered.data = np.arange(matrix.nnz)
        numbered = numbered.tocsc()
        self.shape, self.dropout = tuple(x.shape), dropout
        for name, value in {
            "value": matrix.data,
            "rowptr": matrix.indptr,
            "col": matrix.indices,
            "order": numbered.data,
            "colptr": numbered.indptr,
            "row": numbered.indices,
        }.items():
            self.register_buffer(name, torch.from_numpy(value.copy()), persistent=False)
        self.weight = nn.Parameter(torch.empty(x.size(1), out_channels))
        nn.init.xavier_uniform_(self.weight)

    def forward(self) -> Tensor:
        """The output for all nodes."""
        value = F.dropout(self.value, self.dropout, self.training)
        return _SparseProduct.apply(  # type: ignore[no-any-return]
            value, self.rowptr, self.col, self.order, self.colptr, self.row, self.shape, self.weight
        )


class GCN(nn.Module):
    """Two graph convolutions."""

    def __init__(self, data: Data, num_classes: int) -> None:
        super().__init__()
        self.first = SparseInput(data.x, 16, 0.5)
        self.bias = nn.Parameter(torch.zeros(16))
        self.second = nn.Linear(16, num_classes, bias=False)
        nn.init.xavier_uniform_(self.second.weight)
        self.last_bias = nn.Parameter(torch.zeros(num_classes))
        (row, col), weight = gcn_norm(data.edge_index, None, data.num_nodes)
        matrix = csr_array((weight.numpy(), (col.numpy(), row.numpy())), (data.num_nodes,) * 2)
        self.size = matrix.shape
        for name, value in {"weight": matrix.data, "rowptr": matrix.indptr, "col": matrix.indices}.items():
            self.register_buffer(name, torch.from_numpy(value.copy()), persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of all nodes of the graph that the network was made for."""
        hidden = (self._around(self.first()) + self.bias).relu()
        hidden = F.dropout(hidden, 0.5, self.training)
        return self._around(self.second(hidden)) + self.last_bias

    def _around(self, hidden: Tensor) -> Tensor:
        """The product with the normalised adjacency matrix, which is its own transpose."""
        every = torch.arange(self.col.numel())
        return _SparseProduct.apply(  # type: ignore[no-any-return]
            self.weight, self.rowptr, self.col, every, self.rowptr, self.col, self.size, hidden
        )

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, with weight decay of the first layer alone."""
        first, second = [*self.first.parameters(), self.bias], [*self.second.parameters(), self.last_bias]
        groups = [{"params": first, "weight_decay": 5e-4}, {"params": second, "weight_decay": 0.0}]
        return torch.optim.Adam(groups, lr=0.01)


class GAT(nn.Module):
    """Two layers of attention."""

    def __init__(self, data: Data, num_classes: int) -> None:
        super().__init__()
        self.first = SparseInput(data.x, 64, 0.6)
        self.attention = GATConv(64, 8, heads=8, dropout=0.6)
        self.attention.lin = nn.Identity()  # the sparse layer is it
        self.last = GATConv(64, num_classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of all nodes of the graph that the network was made for."""
        hidden = F.elu(self.attention(self.first(), edge_index))
        return self.last(F.dropout(hidden, 0.6, self.training), edge_index)  # type: ignore[no-any-return]

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, with weight decay."""
        return torch.optim.Adam(self.parameters(), lr=0.005, weight_decay=5e-4)


class APPNP(nn.Module):
    """A network of the features alone, and ten steps of personalised PageRank."""

    def __init__(self, data: Data, num_classes: int, steps: int = 10) -> None:
        super().__init__()
        self.first = SparseInput(data.x, 64, 0.5)
        self.bias = nn.Parameter(torch.zeros(64))
        self.last = nn.Linear(64, num_classes)
        self.propagation = Propagation(K=steps, alpha=0.1, cached=True) if steps else None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of all nodes of the graph that the network was made for."""
        hidden = F.dropout((self.first() + self.bias).relu(), 0.5, self.training)
        logits: Tensor = self.last(hidden)
        return logits if self.propagation is None else self.propagation(logits, edge_index)

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, with weight decay."""
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


class MLP(APPNP):
    """A network of the features alone."""

    def __init__(self, data: Data, num_classes: int) -> None:
        super().__init__(data, num_classes, steps=0)


#: A network that is trained on labels.
NETWORKS: dict[str, type[GCN | GAT | APPNP]] = {"GCN": GCN, "GAT": GAT, "APPNP": APPNP, "MLP": MLP}

#: The epochs of all of them.
EPOCHS = 200


@dataclass(frozen=True)
class Labelled:
    """A graph, a few of its labels and the seed of the weights and of dropout.

    Args:
        data (Data): :obj:`x`, :obj:`edge_index`, :obj:`y` and :obj:`train_mask`.
        num_classes (int): The number of classes.
        seed (int): The seed.
    """

    data: Data
    num_classes: int
    seed: int

    def network(self, name: str) -> nn.Module:
        """A network with its first weights."""
        torch.manual_seed(self.seed)
        return NETWORKS[name](self.data, self.num_classes)

    def train(self, name: str) -> Tensor:
        """The probabilities of a network that was trained on the labels, of shape :obj:`[num_nodes, num_classes]`."""
        data, network = self.data, self.network(name)
        optimizer = network.optimizer()
        network.train()
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            logits = network(data.x, data.edge_index)
            F.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            return network(data.x, data.edge_index).softmax(dim=1)  # type: ignore[no-any-return]
