"""The benchmark of features and graph together: its networks, a cell, the report, one run from end to end."""

from __future__ import annotations

import copy
import functools
import sys

import pytest
import torch
from contest import graphs, table
from shared import gnns, machine, planetoid_job
from shared.gnns import GCN, NETWORKS, Labelled, SparseInput
from shared.planetoid_report import Results, compare, comparison_table, error_table, summary
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import stochastic_blockmodel_graph


@functools.cache
def made_up() -> Data:
    """Three blocks of thirty papers with a few words each, one of which has none."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        edge_index = stochastic_blockmodel_graph([30] * 3, 0.01 + 0.1 * torch.eye(3))
        y = torch.arange(3).repeat_interleave(30)
        x = (torch.rand(90, 12) < 0.1 + 0.4 * torch.eye(3)[y].repeat(1, 4)).float()
    x[5] = 0
    train, test = torch.arange(90) % 30 < 6, torch.arange(90) % 30 >= 20
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train, test_mask=test)


def given(seed: int = 100) -> Labelled:
    data = made_up()
    return Labelled(Data(x=data.x, edge_index=data.edge_index, y=data.y, train_mask=data.train_mask), 3, seed)


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(gnns, "EPOCHS", 5)
    monkeypatch.setattr(planetoid_job, "EPOCHS", 5)
    monkeypatch.setattr(planetoid_job, "NEIGHBORS", 5)
    monkeypatch.setattr(planetoid_job, "load", lambda graph: made_up())
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path / "cache"))


def test_the_sparse_layer_is_a_dense_one():
    x = made_up().x
    layer = SparseInput(x, 4, 0.5).eval()
    weight = layer.weight.detach().clone().requires_grad_()
    out, expected = layer(), x @ weight
    torch.testing.assert_close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, weight.grad)


def test_the_gcn_is_that_of_two_convolutions_of_pyg():
    data = made_up()
    network = GCN(data, 3).eval()
    first, second = GCNConv(12, 16), GCNConv(16, 3)
    with torch.no_grad():
        first.lin.weight.copy_(network.first.weight.t())
        second.lin.weight.copy_(network.second.weight)
        expected = second(first(data.x, data.edge_index).relu(), data.edge_index)
        torch.testing.assert_close(network(data.x, data.edge_index), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_trained_and_can_be_copied(name):
    prob = given().train(name)
    assert prob.shape == (90, 3)
    torch.testing.assert_close(prob.sum(dim=1), torch.ones(90))
    network = given().network(name)
    twin = copy.deepcopy(network)
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), twin.parameters(), strict=True))


@pytest.mark.parametrize("draw", planetoid_job.DRAWS)
def test_a_cell_is_judged_on_nodes_without_a_label(draw, monkeypatch):
    monkeypatch.setattr(planetoid_job, "choose_labels", lambda y, split, seed: torch.arange(90) % 30 < 6)
    seen = {}

    def right(labelled):
        seen["y"] = labelled.data.y
        return made_up().y

    cell = planetoid_job.make_cell("Cora", draw, 100, "CREPE")
    monkeypatch.setitem(planetoid_job.METHODS, "CREPE", (right, 1))
    (row,) = planetoid_job.run_cell(cell)
    assert row["error"] == 0
    assert row["judged"] == (30 if draw == "public" else 72)
    assert int((seen["y"] >= 0).sum()) == row["labelled"] == 18  # no other class is shown


def rows_of(errors: dict[str, list[float]]) -> list[dict]:
    return [
        {"graph": "Cora", "draw": "20 per class", "seed": 100 + seed, "method": method, "error": value}
        for method, values in errors.items()
        for seed, value in enumerate(values)
    ]


def test_the_report_by_hand():
    results = Results(rows_of({"GCN": [20.0, 22.0, 21.0], "GCN + CREPE": [18.0, 19.0, 20.0]}))
    assert "| GCN + CREPE | 19.00 ± 1.00 (3) |" in error_table(results, "20 per class")
    assert "−2.00, lower in 3 of 3, p 7.4e-02 (t)" in comparison_table(results, "20 per class")[2]
    assert "Seeds 100 to 102" in summary(results)
    assert compare([], []) == "–"
    assert compare([1.0], [3.0]) == "−2.00, lower in 1 of 1"


@pytest.mark.filterwarnings("ignore::tg_crepe.warnings.GraphWarning")
def test_a_run_from_end_to_end(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(planetoid_job, "choose_labels", lambda y, split, seed: torch.arange(90) % 30 < 6)
    monkeypatch.setattr(table, "run_command", functools.partial(in_this_process, table.run_command))
    arguments = ["--seeds", "100", "101", "--graphs", "Cora", "--draws", "20 per class", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["contest graphs", *arguments, "--report"])
    with pytest.raises(SystemExit) as stop:
        graphs.main()
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(f"| {method} |" in text for method in planetoid_job.METHODS)
    assert (tmp_path / "contest_graphs.csv").exists()
    assert (tmp_path / "contest_graphs.md").read_text() in text
    assert (tmp_path / "contest_graphs.png").exists()


def in_this_process(run_command, cells, make_job, store, *rest):
    """Finishes all cells here, where the made-up data are, before the command reports them."""
    for cell in cells:
        store.write(cell, planetoid_job.run_cell(cell))
    run_command(cells, make_job, store, *rest)


def test_only_the_whole_table_is_written_by_default(capsys):
    assert graphs.parse_arguments([]).out == machine.RESULTS
    assert graphs.parse_arguments(["--seeds", "100", "110"]).out is None
    assert graphs.parse_arguments(["--graphs", "Cora"]).out is None
    with pytest.raises(SystemExit):
        graphs.parse_arguments(["--methods", "CGN"])
    assert "--methods must be of CREPE" in capsys.readouterr().err
