"""The contest on pretrained features: every method labels, and the table says what the cells hold."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("PIL")

from contest import images
from shared import images_job, machine
from shared.estimators import ESTIMATORS
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
    images_job.read.cache_clear()
    return tmp_path / "a.npz"


def run(path, method: str, seed: int) -> dict:
    cell = Cell({"data": "clusters", "labels": 2, "method": method, "seed": seed}, "", 1.0)
    (row,) = images_job.run_cell({"clusters": path}, 90, cell)
    return row


@pytest.mark.parametrize("method", [*ESTIMATORS, "crepe", images_job.HEAD, "lgc"])
def test_every_method_tells_clusters_apart(path, method):
    row = run(path, method, 0)
    assert (row["error"], row["labelled"], row["unlabelled"]) == (0, 6, 84)
    assert row["seconds"] > 0


def test_labels_are_the_same_for_all_methods_of_a_draw(path, monkeypatch):
    seen = []
    monkeypatch.setattr(images_job, "predict", lambda name, path, mask, rows: (seen.append(mask) or np.zeros(90), 1.0))
    for method in ("crepe", "kNN"):
        assert run(path, method, 3)["error"] == pytest.approx(200 / 3)
    assert torch.equal(*seen)


def test_a_cell_depends_on_the_code_of_its_method(path):
    keys = {images_job.make_cell("a", path, 90, 2, 0, method).version for method in images_job.METHODS}
    assert len(keys) > 10
    assert images_job.make_cell("a", path, 80, 2, 0, "kNN").key != images_job.make_cell("a", path, 90, 2, 0, "kNN").key


def test_the_table_has_means_deviations_and_p(tmp_path):
    rows = [
        {
            "data": "a",
            "labels": 1,
            "method": method,
            "seed": seed,
            "error": error + seed,
            "unlabelled": 100,
            "seconds": 2.0,
        }
        for method, error in ((images_job.HEAD, 10), ("kNN", 30))
        for seed in range(3)
    ]
    rows[-1]["error"] += 1
    text, draw = images.report(rows, 0)
    assert "| crepe + head | 11.0 ± 1.0 | 2.0 |" in text
    assert "| kNN | 31.3 ± 1.5 (p 0.0003) | 2.0 |" in text
    assert "| crepe + head | 1.000 | 1.0 | 1.00 (a, 1 per class) | 1 of 1 | – |" in text
    assert "| kNN | 2.768 | 2.0 | 2.77 (a, 1 per class) | 0 of 1 | 1 |" in text  # 31.83 beside 11.5, a single cell
    unfinished = [*rows, {**rows[0], "seed": 3, "error": 90.0}]  # a draw that kNN does not have yet
    assert images.standing(unfinished).table() == images.standing(rows).table()
    pytest.importorskip("matplotlib")
    draw(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_the_same_rows_are_used_by_all(path):
    chosen = images_job.choose_rows(path, 30)
    assert len(np.unique(chosen)) == 30
    assert np.array_equal(chosen, images_job.choose_rows(path, 30))
    assert len(images_job.read(path, 30)[0]) == 30
    assert len(images_job.choose_rows(path, 1000)) == 90


def test_a_part_of_the_table_is_not_written_over_the_whole():
    assert images.parse_arguments([]).out == machine.RESULTS
    for part in (["--draws", "1"], ["--rows", "500"], ["--model", "timm:resnet18"], ["--size", "64"]):
        assert images.parse_arguments(part).out is None
