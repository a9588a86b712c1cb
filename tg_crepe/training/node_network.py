"""A network on the nodes of a graph: trained on weighted targets and asked for probabilities, at once or in batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence

import torch
import torch_geometric.typing
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe.nn._seeding import seeded
from tg_crepe.training.loss import weighted_loss

#: Makes the batches of a pass: together they hold every node once among their first ``batch_size`` nodes, or among all
#: of them where a batch has no ``batch_size``.
Loader = Callable[[Data], Iterable[Data]]

#: Makes the optimiser of a network.
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


def neighbor_batches(num_neighbors: Sequence[int] = (10, 10), batch_size: int = 1024) -> Loader:
    """Batches of nodes with a sample of their neighbours, by PyG's :class:`~torch_geometric.loader.NeighborLoader`.

    Args:
        num_neighbors (sequence, optional): The neighbours per layer of the network. (default: :obj:`(10, 10)`)
        batch_size (int, optional): The nodes of a batch, without their neighbours. (default: :obj:`1024`)
    """
    if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
        raise ImportError(
            "PyG's NeighborLoader needs 'pyg-lib' or 'torch-sparse', and neither is installed: "
            'pip install --no-build-isolation "tg-crepe[ext]", or take a loader that needs no extension, '
            "loader=lambda data: RandomNodeLoader(data, num_parts=10)"
        )
    from torch_geometric.loader import NeighborLoader

    def load(data: Data) -> Iterable[Data]:
        return NeighborLoader(data, list(num_neighbors), batch_size=batch_size, shuffle=True)

    return load


class NodeNetwork:
    r"""A network :math:`f(x, \text{edges})` and how it is trained.

    .. math::
        \min_\theta - \sum_i \sum_l m_i^l \log \mathrm{softmax}_l(f_\theta(x)_i),

    where :math:`m_i` is the target of node :math:`i` times its weight, zero where there is none
    (:meth:`~tg_crepe.training.HybridLoss.targets`). A batch stands for all nodes: its loss counts as often as there are
    batches of its size.

    Args:
        network (torch.nn.Module): The network with its first weights; it is copied.
        data (Data): :obj:`x` and, where there are any, :obj:`edge_index` and :obj:`edge_weight`.
        epochs (int): The passes through all nodes.
        optimizer (callable): From a network to its optimiser.
        loader (callable, optional): See :data:`Loader`. (default: :obj:`None`, all nodes at once)
    """

    def __init__(
        self, network: nn.Module, data: Data, epochs: int, optimizer: MakeOptimizer, loader: Loader | None = None
    ) -> None:
        self.network, self.epochs, self.optimizer = network, epochs, optimizer
        self.data = Data(x=data.x, edge_index=data.edge_index, n_id=torch.arange(data.num_nodes, device=data.x.device))
        if data.get("edge_weight") is not None:
            self.data.edge_weight = data.edge_weight
        self.loader = loader

    def train(self, target: Tensor, seed: int) -> nn.Module:
        """A trained copy of the network.

        Args:
            target (torch.Tensor): :math:`m`, of shape :obj:`[num_nodes, num_classes]`.
            seed (int): Of dropout and of the batches.
        """
        with seeded(0):  # a loader may shuffle
            self._check(target)
        network = copy.deepcopy(self.network).to(target.device).train()
        optimizer = self.optimizer(network)
        with seeded(seed), torch.enable_grad():
            for _ in range(self.epochs):
                for batch in self._batches():
                    nodes, logits = _first(batch, self._call(network, batch))
                    optimizer.zero_grad()
                    loss = weighted_loss(logits, target[nodes]).sum() * (len(target) / max(nodes.numel(), 1))
                    loss.backward()
                    optimizer.step()
        if not all(bool(torch.isfinite(weight).all()) for weight in network.parameters()):
            raise FloatingPointError("a weight of the network is not finite; a smaller 'learning_rate' may help")
        return network.eval()

    def predict(self, network: nn.Module) -> Tensor:
        """The probabilities of all nodes, of shape :obj:`[num_nodes, num_classes]`."""
        return self._collect(network.eval()).softmax(dim=1)

    def features(self, network: nn.Module) -> Tensor:
        """The features of all nodes, those that the network calls so or else its outputs, of shape
        :obj:`[num_nodes, num_features]`."""
        return self._collect(getattr(network.eval(), "features", network))

    @torch.no_grad()
    def _collect(self, call: Callable[..., Tensor]) -> Tensor:
        """What a network, or a part of it, gives for all nodes."""
        found, seen = None, torch.zeros_like(self.data.n_id, dtype=torch.bool)
        with seeded(0):  # a loader may draw neighbours
            for batch in self._batches():
                nodes, rows = _first(batch, self._call(call, batch))
                if found is None:
                    found = rows.new_zeros(seen.numel(), rows.size(1))
                found[nodes], seen[nodes] = rows, True
        if found is None or not bool(seen.all()):
            raise ValueError(f"'loader' must go through all nodes, got {int(seen.sum())} of {seen.numel()}")
        return found

    def _batches(self) -> Iterable[Data]:
        return [self.data] if self.loader is None else self.loader(self.data)

    @torch.no_grad()
    def _check(self, target: Tensor) -> None:
        """Raise where the outputs do not fit the targets, before any work."""
        for batch in self._batches():
            logits = self._call(copy.deepcopy(self.network).to(target.device).eval(), batch)
            expected = [batch.x.size(0), target.size(1)]
            if list(logits.shape) != expected:
                raise ValueError(f"'network' must give [num_nodes, num_classes] = {expected}, got {list(logits.shape)}")
            break

    @staticmethod
    def _call(call: Callable[..., Tensor], batch: Data) -> Tensor:
        weight = batch.get("edge_weight")
        return call(batch.x, batch.edge_index) if weight is None else call(batch.x, batch.edge_index, weight)


def _first(batch: Data, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes that a batch is about, by their number in the graph, and their outputs."""
    size = batch.get("batch_size") or batch.n_id.numel()
    return batch.n_id[:size], logits[:size]
