from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe._checks import check_choice, check_finite_rows, check_homogeneous, check_tensor
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.join import GivenGraph, read_graphs, weighted_sum
from tg_crepe.graph.knn import knn_graph
from tg_crepe.graph.prepare import prepare_canonical
from tg_crepe.inference.labels import read_labels
from tg_crepe.inference.out_of_fold import deal_folds, out_of_fold
from tg_crepe.inference.shares import choose_shares
from tg_crepe.inference.soft_labels import certainty
from tg_crepe.models.base import EnergyModel
from tg_crepe.models.registry import ENERGY_MODELS, get_energy_model
from tg_crepe.training.callbacks import Callback
from tg_crepe.training.graph_config import GraphTrainingConfig
from tg_crepe.training.graph_evidence import EvidencePool, diffuse_evidence
from tg_crepe.training.loss import HybridLoss
from tg_crepe.training.node_network import Loader, MakeOptimizer, NodeNetwork
from tg_crepe.typing import OptTensor
from tg_crepe.warnings import GraphWarning


class GraphTrainer:
    r"""The hybrid framework on the nodes of a graph: a network and an energy, in turns.

    .. math::
        P = f_\theta(x, \text{edges}), \qquad
        \hat{p} \propto F(P)^{w_1} \cdot \text{energy}(W, P)^{w_2}, \qquad
        \min_\theta \frac{1}{|\mathcal{L}|} \sum_{i \in \mathcal{L}} \mathrm{CE}(f_\theta(x)_i, y_i) +
        \frac{\gamma}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \varphi_i \mathrm{CE}(f_\theta(x)_i, \hat{p}_i),

    where :math:`W` joins the given edges with the nearest neighbours of the features (:func:`~tg_crepe.join_graphs`, at
    shares that the labels choose), :math:`F` diffuses the network's probabilities on it
    (:func:`~tg_crepe.training.graph_evidence.diffuse_evidence`), and :math:`\varphi` is the certainty of the
    pseudo-labels :math:`\hat{p}`.

    A network is surest of the labels it was trained on, and so is an energy. Therefore the labels are dealt into
    :math:`K` parts, and all of the above runs :math:`K + 1` times, once with all labels and once without each part;
    what network and energy say of the labels that they did not know tells how far each is trusted, :math:`w`
    (:class:`~tg_crepe.training.graph_evidence.EvidencePool`). Where one of them is bad, its exponent is near zero, and
    where no label can be left out the energy has the word alone. It gets the networks' probabilities as its ``prior``:
    of a labelled node those of the network that did not know it, of the others the mean of all
    (:func:`~tg_crepe.inference.out_of_fold.out_of_fold`).

    .. code-block:: python

        from torch_geometric.nn import GCN
        from tg_crepe.training import GraphTrainer

        network = GCN(data.num_features, 16, num_layers=2, out_channels=7, dropout=0.5)
        trainer = GraphTrainer(data, network).fit()
        trainer.data.pseudo_y, trainer.data.pseudo_prob, trainer.data.certainty
        trainer.model, trainer.history, trainer.data.prior  # the last is what networks say that did not know a label

    It is a class of its own beside :class:`HybridTrainer`, with the same loss, energies and callbacks: nodes of a graph
    are trained on all together, they have no augmentation, and training is so short that the networks without some
    labels, which images cannot afford, can be had. Callbacks are notified with rounds as epochs.

    Args:
        data (Data): :obj:`x`, :obj:`y` (read where the mask is :obj:`True` alone), :obj:`train_mask` and where there
            are any :obj:`edge_index`, :obj:`edge_weight` and :obj:`batch`, whose graphs are not joined. Without edges
            the graph is that of the features, and the network is called with :obj:`None` for them: frozen features and
            a head.
        network (torch.nn.Module): From :obj:`(x, edge_index)`, and :obj:`edge_weight` where there are any, to logits
            :obj:`[num_nodes, num_classes]`. It is copied: every training starts from its weights.
        energy (str or EnergyModel, optional): A name of :func:`~tg_crepe.get_energy_model`, or a model.
            (default: :obj:`"crepe"`)
        config (GraphTrainingConfig, optional): The settings. (default: :obj:`None`, :class:`GraphTrainingConfig()`)
        loader (callable, optional): Makes batches of the graph, where it does not fit at once: from a
            :class:`~torch_geometric.data.Data` to an iterable that goes through all its nodes, such as
            :func:`~tg_crepe.training.neighbor_batches` or ``lambda data: RandomNodeLoader(data, num_parts=10)``.
            (default: :obj:`None`, all nodes at once)
        optimizer (callable, optional): From a network to its optimiser. (default: :obj:`None`, Adam by the settings)
        callbacks (sequence of Callback, optional): What else happens. (default: :obj:`()`)
    """

    def __init__(
        self,
        data: Data,
        network: nn.Module,
        energy: str | EnergyModel = "crepe",
        config: GraphTrainingConfig | None = None,
        loader: Loader | None = None,
        optimizer: MakeOptimizer | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config = GraphTrainingConfig() if config is None else config
        self.data, self.num_classes = _read_data(data)
        if not isinstance(network, nn.Module):
            raise ValueError(f"'network' must be a torch.nn.Module, got {type(network).__name__}")
        if not isinstance(energy, EnergyModel):
            check_choice("energy", energy, ENERGY_MODELS)
            energy = get_energy_model(energy)
        self.energy = energy
        self.callbacks = list(callbacks)
        self.epoch = 0
        self.history: list[dict[str, Any]] = []
        self.final: dict[str, Any] = {}
        self.model = network
        self.networks: list[nn.Module] = []
        self._runner = NodeNetwork(network, self.data, self.config.epochs, optimizer or self._adam, loader)
        self._part = deal_folds(self.data.y, self.data.train_mask, self.config.folds, self.config.seed)
        # The labels of every run: without one of the parts each, then all of them.
        self._parts = [self._part == number for number in range(int(self._part.max()) + 1)]
        self._masks = [*(self.data.train_mask & ~left for left in self._parts), self.data.train_mask]

    def fit(self) -> GraphTrainer:
        """Trains, and returns the trainer."""
        if self.epoch:
            raise RuntimeError("'fit' trains once; make another GraphTrainer to train again")
        with ExitStack() as stack:
            for callback in self.callbacks:
                callback.on_train_begin(self)  # type: ignore[arg-type]
                stack.push(lambda kind, error, trace, end=callback.on_train_end: end(self, error))
            share, graph = self._join()
            prepared: CanonicalGraph = prepare_canonical(graph)  # every round and every run asks it
            graphs, pseudo = [prepared] * len(self._masks), None
            # Where nothing can judge it, a network that learns what it has helped to say drifts to one class.
            for _ in range(self.config.rounds if self._parts else 1):
                self.epoch += 1
                self._notify("on_epoch_begin")
                self._train(pseudo)
                self._notify("on_labels_begin")
                if self.config.features == "network" and self.config.k:
                    graphs = [self._join_features(network, share) for network in self.networks]
                pseudo = self._label(graphs)
                self._notify("on_labels_end")
                self.history[-1] |= {"share": share}
                self._notify("on_epoch_end")
            self.final = dict(self.history[-1])
        return self

    def _join(self) -> tuple[list[float], CanonicalGraph]:
        """The given edges and the nearest neighbours of the features as one graph, and their shares."""
        data, graphs = self.data, self._given_edges()
        if self.config.k:
            graphs.append(_feature_graph(data.x, self.config.k, data.batch))
        if not graphs:
            raise ValueError("'data' must hold edges, or 'k' must be above 0 for a graph of the features, got neither")
        share = [1.0]
        if len(graphs) > 1:
            chosen = self.config.share
            if chosen is None:
                chosen = choose_shares(graphs, data.y, data.train_mask, self.num_classes).tolist()
            share = [float(value) / sum(chosen) for value in chosen]
        return share, weighted_sum(read_graphs(graphs, data.num_nodes), share)

    def _given_edges(self) -> list[GivenGraph]:
        edges = self.data.edge_index
        return [] if edges is None or not edges.numel() else [(edges, self.data.get("edge_weight"))]

    def _join_features(self, network: nn.Module, share: list[float]) -> CanonicalGraph:
        """The graph of a run whose network makes the features."""
        x = F.normalize(self._runner.features(network), dim=1)
        graphs = [*self._given_edges(), _feature_graph(x, self.config.k, self.data.batch, "cosine")]
        return weighted_sum(read_graphs(graphs, self.data.num_nodes), share)

    def _ask_energy(self, graphs: list[CanonicalGraph], prob: Tensor) -> Tensor:
        """What the energy says with the labels of every run and the evidence of the networks, of shape
        :obj:`[num_runs, num_nodes, num_classes]`."""
        said, data = [], self.data
        for run, (mask, graph) in enumerate(zip(self._masks, graphs, strict=True)):
            # A run without some labels has the evidence of its own network, which did not know them; what the others
            # say of the labels that it has only tells how far evidence is trusted.
            known = out_of_fold(prob, self._part, data.train_mask)
            prior = known if mask is data.train_mask else torch.where(mask.unsqueeze(1), known, prob[run])
            labels = read_labels(self.data.y, mask, self.num_classes, None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GraphWarning)  # evidence reaches every node, also where no label does
                answer = self.energy.infer(labels, lambda own=graph: (own, []), prior=prior)  # type: ignore[misc]
            said.append(answer.prob.double())
        return torch.stack(said)

    def _train(self, pseudo: Tensor | None) -> None:
        """A network for every run, on its labels and its pseudo-labels."""
        self.networks = [
            self._runner.train(self._target(mask, None if pseudo is None else pseudo[run]), self._seed(run))
            for run, mask in enumerate(self._masks)
        ]
        self.model = self.networks[-1]

    def _target(self, mask: Tensor, pseudo: Tensor | None) -> Tensor:
        """The targets of a run times their weights, of shape :obj:`[num_nodes, num_classes]`."""
        settings = self.config
        state = Data(y=self.data.y, train_mask=mask, num_classes=self.num_classes)
        target = torch.zeros(mask.numel(), self.num_classes, device=mask.device)
        if pseudo is not None:
            state.pseudo_prob, state.pseudo_y, state.pseudo_mask = pseudo.float(), pseudo.argmax(dim=1), ~mask
        loss = HybridLoss.from_data(state, settings)
        if pseudo is None:
            target[mask] = loss.targets(self.data.y[mask])
            return target
        wanted = (state.pseudo_prob if settings.soft_targets else state.pseudo_y)[~mask]
        sure = certainty(state.pseudo_prob, False)[~mask].clamp(0, 1) if settings.certainty_weight else None
        order = torch.cat([mask.nonzero().view(-1), (~mask).nonzero().view(-1)])
        target[order] = loss.targets(self.data.y[mask], wanted, sure)
        return target

    def _label(self, graphs: list[CanonicalGraph]) -> Tensor:
        """The pseudo-labels of every run, of shape :obj:`[num_runs, num_nodes, num_classes]`."""
        data, alpha = self.data, self.config.alpha
        prob = torch.stack([self._runner.predict(network) for network in self.networks]).double()
        # The run with all labels has the evidence of all networks; the others may not see what knew their labels.
        evidence = torch.cat([prob[:-1], prob.mean(dim=0, keepdim=True)])
        spread = [
            diffuse_evidence(own, data.y, mask, graph, alpha)
            for own, mask, graph in zip(evidence, self._masks, graphs, strict=True)
        ]
        opinions = torch.stack([torch.stack(spread), self._ask_energy(graphs, prob)])
        held = [opinions[:, run, left] for run, left in enumerate(self._parts)]
        y = torch.cat([data.y[left] for left in self._parts]) if held else data.y[:0]
        judged = torch.cat(held, dim=1) if held else opinions[:, -1, :0]
        pool = EvidencePool.fit(judged, y)
        pooled = torch.stack([pool(opinions[:, run]) for run in range(len(self._masks))])
        known = F.one_hot(data.y.clamp(min=0), self.num_classes).double()
        pooled = torch.stack([torch.where(m.unsqueeze(1), known, p) for m, p in zip(self._masks, pooled, strict=True)])
        self._write(pooled[-1], pool, judged, y, prob)
        return pooled

    def _write(self, pooled: Tensor, pool: EvidencePool, judged: Tensor, y: Tensor, prob: Tensor) -> None:
        """The pseudo-labels into the data, and a row into the history."""
        self.data.pseudo_prob, self.data.pseudo_y = pooled, pooled.argmax(dim=1)
        self.data.certainty = certainty(pooled, False)
        self.data.pseudo_mask = ~self.data.train_mask
        self.data.prior = out_of_fold(prob, self._part, self.data.train_mask)
        row: dict[str, Any] = {"round": self.epoch, "labels": int(self.data.train_mask.sum())}
        names = ("network", "energy")
        row["trust"] = dict(zip(names, pool.trust.tolist(), strict=True))
        if y.numel():
            wrong = {name: opinion.argmax(dim=1) != y for name, opinion in zip(names, judged, strict=True)}
            wrong["both"] = pool(judged).argmax(dim=1) != y
            row["held_out_error"] = {name: float(value.double().mean()) for name, value in wrong.items()}
        self.history.append(row)

    def _adam(self, network: nn.Module) -> torch.optim.Optimizer:
        settings = self.config
        return torch.optim.Adam(network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)

    def _seed(self, run: int) -> int:
        """Another seed for every run and round."""
        return (self.config.seed * 1_000 + self.epoch) * 1_000 + run

    def _notify(self, moment: str) -> None:
        for callback in self.callbacks:
            getattr(callback, moment)(self)

    def __repr__(self) -> str:
        labels = int(self.data.train_mask.sum())
        return f"{type(self).__name__}({self.data.num_nodes} nodes, {labels} labels, {self.energy})"


def _read_data(data: Data) -> tuple[Data, int]:
    """A copy of what is read of the data, without the truth of unlabelled nodes, and the number of classes."""
    check_homogeneous(data)
    for name in ("x", "y", "train_mask"):
        if data.get(name) is None:
            raise ValueError(f"'data.{name}' must be a tensor, got None")
    x = check_tensor("data.x", data.x)
    if x.layout == torch.strided:
        check_finite_rows("data.x", x)
    given = data.get("num_classes")
    labels = read_labels(data.y, data.train_mask, given if isinstance(given, int) else None, x.size(0))
    if labels.multi_label:
        raise ValueError(f"'data.y' must hold one class per node, of shape [num_nodes], got {list(data.y.shape)}")
    y = torch.where(labels.labelled, labels.sign.argmax(dim=1), -1)
    state = Data(x=x, edge_index=data.get("edge_index"), y=y, train_mask=labels.labelled, num_nodes=x.size(0))
    for name in ("edge_weight", "batch"):
        if data.get(name) is not None:
            state[name] = data[name]
    return state, labels.num_classes


def _feature_graph(x: Tensor, k: int, batch: OptTensor, metric: str = "auto") -> GivenGraph:
    """The nearest neighbours, within a graph of a batch, of the rows that hold anything: a row of zeros, as of a text
    without a known word, is near to everybody by the cosine, and would join all with all."""
    x = x.to_dense() if x.layout != torch.strided else x
    rows = (x != 0).any(dim=1).nonzero().view(-1)
    if rows.numel() < 2:
        return torch.empty(2, 0, dtype=torch.long, device=x.device), None
    own = None if batch is None else batch[rows]
    edge_index, edge_weight = knn_graph(x[rows], min(k, rows.numel() - 1), metric, batch=own)
    return rows[edge_index], edge_weight
