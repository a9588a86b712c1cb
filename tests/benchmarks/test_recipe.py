"""The recipe's experiments: problems are what they say, replaced parts take hold, tables are paired."""

import math
import warnings

import pytest
import torch

pytest.importorskip("sklearn")

from recipe import experiments
from recipe.cases import ISLANDS, RARE, Case, make_problem
from recipe.job import make_cell, read_case, run_cell
from recipe.report import Table
from recipe.variants import VARIANTS
from shared.splits import Split

from tg_crepe import GraphWarning

MOONS = Case("two_moons", Split("count", 5), noise=0.15)
DIGITS = Case("digits", Split("count", 10))


@pytest.fixture(autouse=True)
def _unreached_nodes_are_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield


def test_every_row_of_every_experiment_is_a_variant_and_every_panel_has_the_default():
    rows = {row for experiment in experiments.EXPERIMENTS.values() for row in experiment.rows}
    assert rows <= set(VARIANTS)
    assert all("CREPE" in values.values() for values in experiments.PANELS.values())
    assert experiments.FIRST_SEED >= 100  # the splits below are those of the final tables


def test_cells_of_different_variants_differ_and_tell_their_case():
    cells = [make_cell(MOONS, name, 100, 1.0) for name in VARIANTS]
    assert len({cell.version for cell in cells}) == len(VARIANTS)
    assert all(read_case(cell) == MOONS for cell in cells)


@pytest.mark.parametrize(("twist", "wrong"), [("", 0), ("5 % wrong", 5), ("20 % wrong", 20)])
def test_wrong_labels_are_as_many_as_said(twist, wrong):
    problem = make_problem(Case("two_moons", Split("count", 50), noise=0.1, twist=twist), 100)
    assert int((problem.y != problem.truth)[problem.mask].sum()) == wrong
    assert int(problem.mask.sum()) == 100


def test_rare_class_has_its_share():
    problem = make_problem(Case("two_moons", Split("share", 0.1), noise=0.1, twist="rare class"), 101)
    share = float((problem.truth == problem.small).double().mean())
    assert share == pytest.approx(RARE, abs=1 / problem.truth.numel())


def test_one_label_beside_two_hundred():
    problem = make_problem(Case("two_moons", Split("count", 20), noise=0.1, twist="1 label beside 200"), 101)
    assert problem.y[problem.mask].bincount().tolist() == [200, 1]


def test_halves_share_no_edge():
    whole, halves = make_problem(MOONS, 100), make_problem(Case(**{**vars(MOONS), "twist": "two halves"}), 100)
    assert 0 < halves.edge_index.size(1) < whole.edge_index.size(1)
    adjacency = torch.eye(halves.truth.numel(), dtype=torch.bool)
    adjacency[halves.edge_index[0], halves.edge_index[1]] = True
    reached = adjacency[0]
    while int((grown := adjacency[reached].any(dim=0)).sum()) > int(reached.sum()):
        reached = grown
    assert not bool(reached.all())


@pytest.mark.parametrize("twist", ["weights × 1000", "unlabelled islands"])
def test_harmless_changes_change_no_label(twist):
    case = Case(**{**vars(MOONS), "twist": twist})
    [row] = run_cell(make_cell(case, "CREPE", 100, 1.0))
    assert row["changed"] == 0
    if twist == "unlabelled islands":
        assert make_problem(case, 100).y.numel() == 1000 + 3 * ISLANDS


def test_unknown_twist_is_refused():
    with pytest.raises(ValueError, match="'twist' must be one of"):
        make_problem(Case("two_moons", Split("count", 5), twist="storm"), 100)


@pytest.mark.parametrize("name", ["no coupling", "no ratio term", "no flow, balanced", "factor 0.5", "start labels"])
def test_other_stages_and_constants_take_hold(name):
    problem = make_problem(DIGITS, 100)
    plain, other = (VARIANTS[row].predict(problem)[1].u for row in ("CREPE", name))
    assert float((other - plain).norm()) > 1e-3  # both of unit norm


def test_sixth_step_of_the_long_flow_is_the_first_run_of_the_recipe():
    problem = make_problem(MOONS, 100)
    model, _ = VARIANTS["along the flow"].predict(problem)
    result = VARIANTS["no balancing"].predict(problem)[1]
    assert model.ratios[:7] == result.trace["sum_of_ratios"].tolist()
    assert len(model.labels) == len(model.ratios) == 13


def test_table_averages_over_the_splits_that_all_rows_have():
    rows = [
        {"case": "a", "variant": name, "seed": seed, "error": error}
        for name, seed, error in (("CREPE", 100, 1.0), ("CREPE", 101, 9.0), ("other", 100, 2.0))
    ]
    table = Table(rows, ["CREPE", "other"])
    assert (table.splits("a"), table.mean("a", "CREPE")) == (1, 1.0)
    gap, error = table.difference("a", "other")
    assert gap == 1.0
    assert math.isnan(error)
    assert "| a (1) | **1.00** | 2.00 |" in table.lines()
