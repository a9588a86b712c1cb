"""The contest from features to labels: a cell, the report by hand, one run from end to end."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from contest import features
from shared import features_job, machine
from shared.features_job import OURS
from shared.features_report import best_other, draw_map, energy_rows, summary
from shared.standing import Standing

pytestmark = pytest.mark.filterwarnings("ignore::tg_crepe.warnings.GraphWarning")  # columns are of different scale


def rows_with_classes() -> tuple[torch.Tensor, torch.Tensor]:
    """Three clouds of forty rows, far apart, with columns of different scale."""
    y = torch.arange(3).repeat_interleave(40)
    x = 6 * torch.eye(3)[y] + torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    return x * torch.tensor([1.0, 100.0, 0.01]), y


@pytest.mark.parametrize("name", features_job.SECONDS)
def test_every_method_reads_only_the_labels_of_the_mask(name):
    x, y = rows_with_classes()
    mask = torch.arange(120) % 40 < 6
    label = features_job.predict(name, x, torch.where(mask, y, -1), mask, "5 per class")
    assert (label == y.numpy()).mean() > 0.97


def test_a_cell_is_judged_on_rows_without_a_label(monkeypatch):
    x, y = rows_with_classes()
    mask = torch.arange(120) % 40 < 2
    monkeypatch.setattr(features_job, "labelled_rows", lambda *_: (x, y, mask))
    seen = {}

    def half(method, x, y, mask, draw):
        seen["y"] = y
        return np.where(np.arange(120) < 60, rows_with_classes()[1].numpy(), 9)

    monkeypatch.setattr(features_job, "predict", half)
    (row,) = features_job.run_cell(features_job.make_cell("iris", "2 per class", 100, "kNN"))
    assert (row["labelled"], row["unlabelled"]) == (6, 114)
    assert row["error"] == pytest.approx(100 * (20 + 38) / 114)
    assert int((seen["y"] >= 0).sum()) == 6  # no other class is shown
    monkeypatch.setattr(features_job, "labelled_rows", lambda *_: (x, y, None))
    assert features_job.run_cell(features_job.make_cell("iris", "25 per class", 100, "kNN")) == []


def made_up(errors: dict[str, list[float]], draw: str = "5 per class") -> list[dict]:
    return [
        {"family": "iris", "draw": draw, "seed": seed, "method": method, "error": value, "unlabelled": 100}
        for method, values in errors.items()
        for seed, value in enumerate(values)
    ]


def test_the_report_by_hand(tmp_path):
    rows = made_up({OURS: [10.0, 12.0], "kNN": [21.5, 21.5]})
    table = tmp_path / "energies.csv"
    with table.open("w", newline="") as file:
        energies = made_up({"wnll": [9.5, 9.5], "paper": [0.0, 0.0]}) + made_up({"wnll": [1.0]}, "2 per class")
        writer = csv.DictWriter(file, fieldnames=list(energies[0]))
        writer.writeheader()
        writer.writerows(energies)
    found = energy_rows(rows, table)
    assert [row["method"] for row in found] == ["wnll"] * 2  # the cells of the others, without forms of CREPE
    assert energy_rows(rows, tmp_path / "nothing.csv") == []
    everything = [*rows, *found]
    assert best_other(Standing.of_rows(everything, OURS), ("iris", "5 per class")) == (9.5, "wnll")
    text = summary(everything)
    assert "| CrepeClassifier | 1.150 | 2.0 | 1.15 (iris, 5 per class) | 0 of 1 | – |" in text  # 11.5 over 10
    assert "| kNN | 2.200 | 3.0 | 2.20 (iris, 5 per class) | 0 of 1 | 1 |" in text
    assert "| kNN | 2.20 (p 1) |" in text
    assert "11.0 / 9.5 (wnll)" in text
    pytest.importorskip("matplotlib")
    draw_map(everything, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_from_end_to_end(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path / "cache"))
    chosen = ["--families", "iris", "--draws", "5 per class", "--methods", OURS, "kNN"]
    arguments = ["--seeds", "100", "101", *chosen, "--workers", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["contest features", *arguments])
    with pytest.raises(SystemExit) as stop:
        features.main()
    assert stop.value.code == 0
    assert "| CrepeClassifier |" in capsys.readouterr().out
    assert (tmp_path / "contest_features.csv").exists()


def test_only_the_whole_table_is_written_unasked():
    assert features.parse_arguments([]).out == machine.RESULTS
    assert features.parse_arguments(["--methods", OURS]).out is None
