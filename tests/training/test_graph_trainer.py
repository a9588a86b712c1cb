"""The trainer on graphs, on a small block model whose features and edges each tell a part of the classes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GAT, GCN
from torch_geometric.utils import stochastic_blockmodel_graph

from tg_crepe import LGC
from tg_crepe.graph import CanonicalGraph
from tg_crepe.training import Callback, GraphTrainer, GraphTrainingConfig

CONFIG = GraphTrainingConfig(folds=2, epochs=12, learning_rate=0.05, k=5)


def block_data(size: int = 40, per_class: int = 6, noise: float = 1.0) -> Data:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        edge_index = stochastic_blockmodel_graph([size] * 3, 0.01 + 0.09 * torch.eye(3))
    y = torch.arange(3).repeat_interleave(size)
    x = torch.eye(3)[y].repeat(1, 2) + noise * torch.randn(3 * size, 6, generator=generator)
    return Data(x=x, edge_index=edge_index, y=y, train_mask=torch.arange(3 * size) % size < per_class)


def network(out_channels: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return GCN(6, 8, num_layers=2, out_channels=out_channels, dropout=0.5)


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            self.linear = nn.Linear(6, 3)

    def forward(self, x, edge_index):
        assert edge_index is None
        return self.linear(x)


def error(trainer: GraphTrainer, data: Data) -> float:
    return float((trainer.data.pseudo_y != data.y)[~data.train_mask].double().mean())


def fit(data: Data | None = None, net: nn.Module | None = None, **options) -> GraphTrainer:
    options = {"config": CONFIG, "energy": LGC(), **options}
    return GraphTrainer(data or block_data(), net or network(), **options).fit()


def test_pseudo_labels_of_both_are_written_and_good():
    data = block_data()
    trainer = fit(data, energy="crepe")
    state = trainer.data
    assert error(trainer, data) < 0.15  # a guess has 2/3
    assert state.pseudo_prob.shape == (120, 3)
    torch.testing.assert_close(state.pseudo_prob.sum(dim=1), torch.ones(120, dtype=torch.float64))
    assert torch.equal(state.pseudo_y, state.pseudo_prob.argmax(dim=1))
    assert torch.equal(state.pseudo_y[data.train_mask], data.y[data.train_mask])
    assert torch.equal(state.pseudo_mask, ~data.train_mask)
    assert 0 <= float(state.certainty.min()) <= float(state.certainty.max()) <= 1


def test_the_history_says_what_was_trusted():
    trainer = fit()
    assert [row["round"] for row in trainer.history] == [1, 2]
    for row in trainer.history:
        assert set(row["trust"]) == {"network", "energy"}
        assert all(0 <= value <= 1 for value in row["held_out_error"].values())
        assert sum(row["share"]) == pytest.approx(1)
    assert trainer.final == trainer.history[-1]


def test_same_seed_same_bits_and_inputs_untouched():
    data, net = block_data(), network()
    before, weights = copy.deepcopy(data), copy.deepcopy(net.state_dict())
    torch.manual_seed(1)
    first = fit(data, net)
    torch.manual_seed(2)  # nothing outside is read
    second = fit(data, net)
    assert torch.equal(first.data.pseudo_prob, second.data.pseudo_prob)
    assert set(data.keys()) == set(before.keys())
    assert all(torch.equal(data[name], before[name]) for name in before.keys())  # noqa: SIM118
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    other = fit(data, net, config=replace(CONFIG, seed=1))
    assert not torch.equal(first.data.pseudo_prob, other.data.pseudo_prob)


def test_labels_outside_the_mask_change_no_bit():
    data = block_data()
    poisoned = data.clone()
    poisoned.y = torch.where(data.train_mask, data.y, 2 - data.y)
    assert torch.equal(fit(data).data.pseudo_prob, fit(poisoned).data.pseudo_prob)


def test_every_label_is_judged_by_networks_that_never_saw_it():
    """The targets of a run without a part hold no label of that part, in any round."""
    seen = []

    class Spy(GraphTrainer):
        def _target(self, mask, pseudo):
            target = super()._target(mask, pseudo)
            seen.append((mask, target, pseudo))
            return target

    data = block_data()
    Spy(data, network(), LGC(), CONFIG).fit()
    assert len(seen) == 2 * 3
    left = [data.train_mask & ~mask for mask, _, _ in seen[:2]]
    assert torch.equal(torch.stack(left).sum(dim=0), data.train_mask.long())  # each label once
    for mask, target, pseudo in seen:
        own = target[data.train_mask & ~mask]
        if pseudo is None:
            assert not bool(own.any())
        else:  # what stands there is the pseudo-label of a run that did not know the label either
            share = own / own.sum(dim=1, keepdim=True)
            torch.testing.assert_close(share, pseudo[data.train_mask & ~mask].float())
            assert bool((pseudo[data.train_mask & ~mask] < 1).all())


def test_the_energy_gets_evidence_of_networks_that_did_not_know_the_labels():
    asked = []

    class Listening(LGC):
        def infer(self, labels, read_graph, *arguments, prior=None, **options):
            asked.append((labels.labelled, prior))
            return super().infer(labels, read_graph, *arguments, prior=prior, **options)

    trainer = GraphTrainer(block_data(), network(), Listening(), replace(CONFIG, rounds=1)).fit()
    prob = torch.stack([trainer._runner.predict(own) for own in trainer.networks]).double()
    assert len(asked) == 3
    for run, (labelled, prior) in enumerate(asked):
        for node in labelled.nonzero().view(-1).tolist():  # of a label that the run has: the network without it
            torch.testing.assert_close(prior[node], prob[int(trainer._part[node]), node])
        expected = prob[run] if run < 2 else prob.mean(dim=0)
        torch.testing.assert_close(prior[~labelled], expected[~labelled])
    assert torch.equal(asked[-1][1], trainer.data.prior)


def test_the_targets_are_those_of_the_hybrid_loss():
    trainer = GraphTrainer(block_data(), network(), LGC(), CONFIG)
    mask = trainer.data.train_mask
    pseudo = torch.softmax(torch.randn(120, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=1)
    target = trainer._target(mask, pseudo)
    entropy = -(pseudo * pseudo.log()).sum(dim=1)
    sure = 1 - entropy / torch.log(torch.tensor(3.0))
    expected = torch.where(mask.unsqueeze(1), torch.eye(3)[trainer.data.y] / 18, pseudo * sure.unsqueeze(1) / 102)
    torch.testing.assert_close(target, expected.float())


def test_a_network_that_knows_nothing_is_not_trusted():
    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3))

        def forward(self, x, edge_index):
            return self.bias.expand(x.size(0), 3)

    data = block_data(noise=0.4)
    trainer = fit(data, Blind(), config=GraphTrainingConfig(folds=3, epochs=5, k=5, alpha=0.0))
    graph = trainer._join()[1]
    edges, weight = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)
    alone = LGC().propagate(trainer.data.y, edges, data.train_mask, weight, num_classes=3)
    assert float((trainer.data.pseudo_y == alone.label).double().mean()) > 0.95


def test_shares_may_be_given_and_are_stated():
    trainer = fit(config=GraphTrainingConfig(folds=3, epochs=5, k=5, share=(3, 1)))
    assert trainer.final["share"] == [0.75, 0.25]
    alone = fit(config=GraphTrainingConfig(folds=3, epochs=5, k=0))
    assert alone.final["share"] == [1.0]


def test_isolated_nodes_and_rows_without_features_get_a_label():
    data = block_data()
    data.x[0] = 0  # labelled
    data.x[119] = 0
    data.edge_index = data.edge_index[:, (data.edge_index != 118).all(dim=0) & (data.edge_index != 119).all(dim=0)]
    trainer = fit(data)
    assert int(trainer.data.pseudo_y.min()) >= 0


class Parts(nn.Module):
    """A network that says which of its layers gives features."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.asked = network(out_channels=8), 0
        self.head = nn.Linear(8, 3)
        nn.init.eye_(self.head.weight)

    def features(self, x, edge_index):
        self.asked += 1
        return self.body(x, edge_index).relu()

    def forward(self, x, edge_index):
        return self.head(self.body(x, edge_index).relu())


@pytest.mark.parametrize("make", [network, Parts])
def test_the_graph_may_be_that_of_the_networks_features(make):
    data = block_data()
    trainer = fit(data, make(), config=replace(CONFIG, features="network"))
    assert error(trainer, data) < 0.35  # a guess has 2/3
    asked = [getattr(own, "asked", None) for own in trainer.networks]
    assert asked == ([1, 1, 1] if make is Parts else [None] * 3)
    share, graph = trainer._join()
    made = trainer._join_features(trainer.model, share)
    assert trainer.final["share"] == share  # chosen on the input, which no label has touched
    assert not torch.equal(made.edge_index, graph.edge_index)
    inside = made.edge_index
    given = {tuple(edge) for edge in data.edge_index.t().tolist()}
    assert given & {tuple(edge) for edge in inside.t().tolist()} == {edge for edge in given if edge[0] < edge[1]}


def test_graphs_of_a_batch_are_not_joined():
    batch = Batch.from_data_list([block_data(), block_data()])
    graph = GraphTrainer(batch, network(), LGC(), CONFIG)._join()[1]
    assert torch.equal(batch.batch[graph.edge_index[0]], batch.batch[graph.edge_index[1]])
    assert graph.num_edges > batch.num_edges // 2


def test_frozen_features_and_a_head_are_the_same_loop():
    data = block_data(noise=0.6)
    data.edge_index = None
    trainer = fit(data, Head())
    assert error(trainer, data) < 0.15
    assert trainer.final["share"] == [1.0]


def test_batches_of_a_loader_go_through_all_nodes():
    data = block_data()
    first, second = (fit(data, loader=lambda whole: RandomNodeLoader(whole, 2, shuffle=True)) for _ in range(2))
    assert error(first, data) < 0.35  # half of the edges are between the halves; a guess has 2/3
    assert torch.equal(first.data.pseudo_prob, second.data.pseudo_prob)


def test_one_batch_of_all_nodes_is_the_full_graph():
    data = block_data()
    whole = fit(data, loader=lambda graph: [graph])
    assert torch.equal(whole.data.pseudo_prob, fit(data).data.pseudo_prob)


def test_a_loader_that_leaves_nodes_out_is_refused():
    with pytest.raises(ValueError, match=r"'loader' must go through all nodes, got 60 of 120"):
        fit(loader=lambda graph: [graph.subgraph(torch.arange(60))])


def test_other_networks_and_weighted_edges_are_trained_too():
    data = block_data()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        attention = GAT(6, 4, num_layers=2, out_channels=3, heads=2)
    assert error(fit(data, attention), data) < 0.35  # a guess has 2/3
    plain = fit(data)
    data.edge_weight = torch.ones(data.num_edges)
    torch.testing.assert_close(fit(data).data.pseudo_prob, plain.data.pseudo_prob)


@pytest.mark.parametrize("per_class", [1, 2])
def test_very_few_labels_are_enough_to_run(per_class):
    data = block_data(per_class=per_class)
    trainer = fit(data, config=GraphTrainingConfig(folds=5, epochs=5, k=5))
    assert ("held_out_error" in trainer.final) == (per_class > 1)
    assert trainer.final["trust"] == {"network": 0.0, "energy": 1.0} or per_class > 1
    assert len(trainer.history) == (2 if per_class > 1 else 1)


def test_callbacks_are_called_at_their_moments():
    class Log(Callback):
        def __init__(self):
            self.moments = []

        def on_train_begin(self, trainer):
            self.moments.append("begin")

        def on_epoch_begin(self, trainer):
            self.moments.append(f"round {trainer.epoch}")

        def on_labels_end(self, trainer):
            self.moments.append(f"labels {int(trainer.data.pseudo_mask.sum())}")

        def on_epoch_end(self, trainer):
            self.moments.append(f"row {trainer.history[-1]['round']}")

        def on_train_end(self, trainer, error):
            self.moments.append(f"end {error}")

    log = Log()
    fit(callbacks=[log])
    assert log.moments == ["begin", "round 1", "labels 102", "row 1", "round 2", "labels 102", "row 2", "end None"]


def test_a_trainer_trains_once():
    trainer = fit()
    with pytest.raises(RuntimeError, match="'fit' trains once"):
        trainer.fit()


def test_repr_says_what_is_trained():
    assert repr(GraphTrainer(block_data(), network(), LGC())).startswith("GraphTrainer(120 nodes, 18 labels, LGC(")


def wrong(name: str, value) -> Data:
    data = block_data()
    data[name] = value
    return data


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphTrainer(HeteroData(), network()), "'data' must be a Data or a Batch"),
        (lambda: GraphTrainer(wrong("x", None), network()), r"'data.x' must be a tensor, got None"),
        (lambda: GraphTrainer(wrong("y", torch.zeros(120, 4)), network()), "'data.y' must hold one class per node"),
        (lambda: GraphTrainer(wrong("x", torch.full((120, 6), torch.nan)), network()), r"'data.x' must be finite"),
        (lambda: GraphTrainer(block_data(), "gcn"), r"'network' must be a torch.nn.Module, got str"),
        (lambda: GraphTrainer(block_data(), network(), "nothing"), "'energy' must be one of"),
        (lambda: fit(net=network(out_channels=5)), r"'network' must give \[num_nodes, num_classes\] = \[120, 3\]"),
        (lambda: GraphTrainingConfig(features="all"), "'features' must be one of 'input', 'network'"),
        (lambda: GraphTrainingConfig(folds=1), "'folds' must be"),
        (lambda: GraphTrainingConfig(alpha=1.0), r"'alpha' must be in \[0, 1\)"),
        (lambda: GraphTrainingConfig(share=(1, 2, 3)), "'share' must hold a number >= 0 for each of 2 graphs"),
    ],
)
def test_what_cannot_be_trained_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_neither_edges_nor_a_graph_of_features_are_refused():
    data = block_data()
    data.edge_index = None
    with pytest.raises(ValueError, match="'data' must hold edges, or 'k' must be above 0"):
        fit(data, Head(), config=GraphTrainingConfig(k=0))


def test_the_graph_is_prepared_once_for_all_rounds_and_runs(monkeypatch):
    expected, made = fit().data.pseudo_prob, []
    compact = CanonicalGraph.compact
    monkeypatch.setattr(CanonicalGraph, "compact", lambda *given: made.append(1) or compact(*given))
    found = fit().data.pseudo_prob
    assert len(made) == 1
    assert torch.equal(found, expected)
    monkeypatch.setattr("tg_crepe.training.graph_trainer.prepare_canonical", lambda graph: graph)
    assert torch.equal(fit().data.pseudo_prob, expected)  # the same bits on a graph that is not prepared
    assert len(made) > 2
