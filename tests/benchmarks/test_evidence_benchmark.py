"""The benchmark of soft evidence: guesses are as right as they say, the report by hand, one run from end to end."""

from __future__ import annotations

import sys

import evidence
import numpy as np
import pytest
import torch
from shared.evidence_job import KINDS
from shared.evidence_job import evidence as make

pytest.importorskip("sklearn")


@pytest.mark.parametrize("accuracy", [40, 60, 80])
def test_guesses_are_as_right_as_they_say_and_err_in_certain_classes(accuracy):
    y = torch.arange(7).repeat_interleave(1000)
    prob = make(f"{accuracy} % right", y, 7, seed=100)
    said = prob.argmax(dim=1)
    assert float((said == y).double().mean()) == pytest.approx(accuracy / 100, abs=0.03)
    torch.testing.assert_close(prob.sum(dim=1), torch.ones(7000, dtype=torch.float64))
    wrong = torch.stack([torch.bincount(said[(y == c) & (said != y)], minlength=7) for c in range(7)]).double()
    assert float((wrong.amax(dim=1) / wrong.sum(dim=1)).min()) > 0.5


def test_what_should_be_ignored_knows_nothing_or_lies():
    y = torch.arange(4).repeat_interleave(1000)
    for kind in ("noise", "sure noise"):
        assert float((make(kind, y, 4, 100).argmax(dim=1) == y).double().mean()) == pytest.approx(0.25, abs=0.03)
    assert make("constant", y, 4, 100).unique(dim=0).size(0) == 1
    assert not (make("wrong", y, 4, 100).argmax(dim=1) == y).any()
    assert make("none", y, 4, 100) is None


def test_the_report_by_hand():
    errors = dict.fromkeys(KINDS, 20.0) | {"noise": 20.6, "wrong": 19.0, "40 % right": 15.0, "80 % right": 10.5}
    rows = [
        {"family": "iris", "draw": "5 per class", "seed": 0, "kind": kind, "error": value, "alone": 10.0, "trust": 0.0}
        for kind, value in errors.items()
    ]
    rows.append({**rows[0], "seed": 1})  # a seed that is not finished is left out
    rows[-3] |= {"alone": 60.0}
    text, _ = evidence.report(rows, 0)
    assert "| iris | 5 per class | 20.0 | **+0.6** | +0.0 | +0.0 | −1.0 | **15.0 (10.0)** |" in text
    assert np.isclose(evidence.Results(rows).mean(("iris", "5 per class"), "none"), 20)


def test_a_run_from_end_to_end(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path / "cache"))
    chosen = ["--families", "breast cancer", "--draws", "2 per class", "--workers", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["evidence", "--seeds", "100", "101", *chosen])
    with pytest.raises(SystemExit) as stop:
        evidence.main()
    assert stop.value.code == 0
    assert "| breast cancer | 2 per class |" in capsys.readouterr().out
    assert (tmp_path / "evidence.png").exists()
