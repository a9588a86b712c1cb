"""The benchmark on pretrained features: every method labels, and the table says what the cells hold."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("PIL")

import pretrained
from shared.grid import Cell

from tg_crepe.embed import Embedding


@pytest.fixture
def path(tmp_path):
    """Features of three clusters that are far apart."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (rng.normal(size=(90, 8)) * 0.3 + 5 * np.eye(8)[y]).astype(np.float32)
    Embedding(x, tuple(map(str, range(90)))).save(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", y)
    pretrained.read.cache_clear()
    return tmp_path / "a.npz"


@pytest.mark.parametrize("method", [*pretrained.OTHERS, "crepe", pretrained.HEAD, "lgc"])
def test_every_method_tells_clusters_apart(path, method):
    job = pretrained.make_job((("clusters", path),), 90)
    (row,) = job(Cell({"data": "clusters", "labels": 2, "method": method, "seed": 0}, "", 1.0))
    assert row["error"] == 0
    assert row["seconds"] > 0


def test_labels_are_the_same_for_all_methods_of_a_draw(path, monkeypatch):
    seen = []
    monkeypatch.setattr(pretrained, "predict", lambda name, path, mask, rows: (seen.append(mask) or np.zeros(90), 1.0))
    job = pretrained.make_job((("clusters", path),), 90)
    for method in ("crepe", "kNN"):
        (row,) = job(Cell({"data": "clusters", "labels": 2, "method": method, "seed": 3}, "", 1.0))
        assert row["error"] == pytest.approx(2 / 3)
    assert torch.equal(*seen)
    assert int(seen[0].sum()) == 6


def test_the_table_has_means_deviations_and_p(tmp_path):
    rows = [
        {"data": "a", "labels": 1, "method": method, "seed": seed, "error": error + 0.01 * seed, "seconds": 2.0}
        for method, error in (("crepe", 0.1), ("kNN", 0.3))
        for seed in range(3)
    ]
    rows[-1]["error"] += 0.01
    text, draw = pretrained.summary(rows, 0)
    assert "| crepe | 11.0 ± 1.0 | 2.0 |" in text
    assert "| kNN | 31.3 ± 1.5 (p " in text
    assert "| crepe | 1.00 | 1.00 | 1 of 1 |" in text
    assert "| kNN | 2.80 | 2.80 | 0 of 1 |" in text  # 31.63 beside 11.3
    unfinished = [*rows, {**rows[0], "seed": 3, "error": 0.9}]  # a draw that kNN does not have yet
    assert pretrained.overall(unfinished) == pretrained.overall(rows)
    pytest.importorskip("matplotlib")
    draw(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_the_same_rows_are_used_by_all(path):
    chosen = pretrained.choose_rows(path, 30)
    assert len(np.unique(chosen)) == 30
    assert np.array_equal(chosen, pretrained.choose_rows(path, 30))
    assert len(pretrained.read(path, 30)[0]) == 30
    assert len(pretrained.choose_rows(path, 1000)) == 90


def test_a_part_of_the_table_is_not_written_over_the_whole():
    assert pretrained.parse_arguments([]).out == pretrained.machine.RESULTS
    assert pretrained.parse_arguments(["--draws", "1"]).out is None
