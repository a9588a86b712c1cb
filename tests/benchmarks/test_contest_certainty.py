"""The contest of certainty: what is found among the least certain, a cell, the report by hand, the figure."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("sklearn")

from contest import certainty
from shared import certainty_job, machine
from shared.certainty_job import CREPE, HEAD, METHODS, Opinion, errors_found, judge
from shared.certainty_report import Results, draw_reliability, summary
from shared.families import Family

from tg_crepe import knn_graph
from tg_crepe.inference.task import ExpectedError

pytestmark = pytest.mark.filterwarnings("ignore::tg_crepe.warnings.GraphWarning")


def test_errors_among_the_least_certain_fifth():
    certainty = torch.linspace(0, 1, 10, dtype=torch.float64)
    wrong = torch.zeros(10, dtype=torch.bool)
    wrong[[0, 5, 6, 9]] = True  # the fifth are the first two
    assert errors_found(certainty, wrong) == pytest.approx(1 / 4)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    assert errors_found(certainty[order], wrong[order]) == pytest.approx(1 / 4)


def test_equally_certain_rows_count_in_equal_parts():
    wrong = torch.tensor([1, 0, 0, 0, 0, 0, 0, 0, 0, 1]).bool()
    assert errors_found(torch.ones(10, dtype=torch.float64), wrong) == pytest.approx(0.2)  # chance
    # One row is less certain; the other place of the fifth is shared by nine.
    certainty = torch.tensor([0.0] + [1.0] * 9, dtype=torch.float64)
    assert errors_found(certainty, wrong) == pytest.approx((1 + 1 / 9) / 2)


def test_judgement_by_hand():
    # Ten rows without a label; two of them are wrong, one of these the least certain.
    prob = torch.tensor([[0.5, 0.5]] + [[0.9, 0.1]] * 9 + [[1.0, 0.0]], dtype=torch.float64)
    truth = torch.tensor([1] + [0] * 8 + [1, 0])
    mask = torch.arange(11) == 10
    found = judge(Opinion(prob.argmax(dim=1), prob, ExpectedError(0.2, 0.1, 0.3)), truth, mask)
    assert (found["labelled"], found["unlabelled"], found["error"]) == (1, 10, pytest.approx(20))
    assert (found["low"], found["high"]) == pytest.approx((10, 30))
    # Bins: one row at a half, wrong; nine at 0.9, eight of them right.
    assert found["ece"] == pytest.approx(100 * (0.1 * 0.5 + 0.9 * abs(0.9 - 8 / 9)))
    assert found["found"] == pytest.approx(100 * (1 + 1 / 9) / 2)
    assert found["most"] == 100
    assert found["left"] == pytest.approx(20 * (1 - (1 + 1 / 9) / 2))
    assert (found["rows_6"], found["sure_6"], found["right_6"]) == pytest.approx((0.1, 0.05, 0))
    assert (found["rows_10"], found["sure_10"], found["right_10"]) == pytest.approx((0.9, 0.81, 0.8))
    right = judge(Opinion(truth, prob, None), truth, mask)
    assert (right["found"], right["most"], right["low"], right["left"]) == ("", "", "", 0)


def test_no_more_errors_can_lie_in_a_fifth_than_rows():
    prob = torch.tensor([[0.6, 0.4]] * 10, dtype=torch.float64)
    found = judge(Opinion(torch.zeros(10), prob, None), torch.ones(10), torch.zeros(10, dtype=torch.bool))
    assert (found["most"], found["found"]) == pytest.approx((20, 20))


def clouds() -> tuple[Family, torch.Tensor]:
    y = torch.arange(3).repeat_interleave(30)
    x = 4 * torch.eye(3)[y] + torch.randn(90, 3, generator=torch.Generator().manual_seed(0))
    return Family("clouds", y, *knn_graph(x, 8), x), torch.arange(90) % 30 < 6


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_how_sure_it_is_and_sees_no_other_label(method, monkeypatch):
    family, mask = clouds()
    seen = {}
    ask = certainty_job.ask

    def watched(method, family, y, mask):
        seen["known"] = int((y >= 0).sum())
        return ask(method, family, y, mask)

    monkeypatch.setattr(certainty_job, "ask", watched)
    found = certainty_job.measure(method, family, mask)
    assert seen["known"] == int(mask.sum()) == 18
    assert found["error"] < 10
    assert 0 <= found["ece"] < 40
    assert (found["low"] == "") == (method in ("logistic regression", "label spreading"))
    assert sum(found[f"rows_{i + 1}"] for i in range(certainty_job.CURVE)) == pytest.approx(1)


def made_up() -> list[dict]:
    rows = []
    for seed in range(2):
        for family, shift in (("digits", 0.0), ("TREC", 10.0)):
            for method, error in ((CREPE, 10.0), (HEAD, 20.0), ("logistic regression", 30.0)):
                sure = {f"{name}_{i}": 0.1 for name in ("rows", "sure", "right") for i in range(1, 11)}
                interval = ("", "") if method == "logistic regression" else (5.0, 25.0)
                rows.append(
                    {
                        "family": family,
                        "draw": "5 per class",
                        "seed": seed,
                        "method": method,
                        "error": error + shift,
                        "ece": error / 2 + shift + seed,
                        "low": interval[0],
                        "high": interval[1],
                        "found": 50.0 - shift - seed if error > 10 else "",
                        "most": 80.0,
                        "left": 3.0,
                        **sure,
                    }
                )
    return rows


def test_the_report_by_hand(tmp_path):
    rows = made_up()
    results = Results(rows)
    assert results.mean(CREPE, "ece") == pytest.approx((5.5 + 15.5) / 2)
    assert results.mean(HEAD, "found", family="TREC") == pytest.approx(39.5)
    assert math.isnan(results.mean(CREPE, "found"))
    assert results.held(HEAD) == 50
    assert math.isnan(results.held("logistic regression"))
    assert results.worst(CREPE, "ece", largest=True) == ("TREC", 15.5)
    assert results.worst(HEAD, "found", largest=False) == ("TREC", 39.5)
    assert results.chance(HEAD, "ece") == 0.5  # two cells, both above
    text = summary(rows)
    assert "| CREPE + head | 25.0 | 15.5 | 0.5 | TREC 20.5 | 44 (80) | – | TREC 40 | 3.0 | 1 | 50 | TREC 0 |" in text
    assert "| CREPE | 10.5 |" in text
    unfinished = [*rows, {**rows[0], "seed": 2, "ece": 90.0}]  # a draw that the others do not have yet
    assert Results(unfinished).mean(CREPE, "ece") == results.mean(CREPE, "ece")
    pytest.importorskip("matplotlib")
    draw_reliability(rows, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_method_that_makes_no_error_at_all_has_a_line():
    rows = [{**row, "found": ""} for row in made_up() if row["method"] != HEAD]
    assert "| CREPE | 15.0 | 10.5 | – | TREC 15.5 | – (80) | – | – | 3.0 |" in summary(rows)


def test_only_the_whole_table_is_written_unasked():
    assert certainty.parse_arguments([]).out == machine.RESULTS
    assert certainty.parse_arguments(["--families", "digits"]).out is None
