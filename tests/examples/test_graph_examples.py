from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODELS = ["CREPE", "LGC", "Harmonic", "PyG LabelPropagation"]


def errors(text: str) -> dict[str, float]:
    """The first number behind the name of every model."""
    found = {model: re.search(rf"^{model} +([\d.]+)", text, re.MULTILINE) for model in MODELS}
    return {model: float(match.group(1)) for model, match in found.items() if match}


def test_two_moons_prints_a_row_a_model_and_writes_its_numbers(run, tmp_path):
    pytest.importorskip("sklearn", reason="the moons need the extra 'sklearn'")
    out, _ = run("two_moons", "--seeds", "1", "--start-seed", "100", "--csv", str(tmp_path / "moons.csv"))
    table = errors(out)
    assert list(table) == MODELS
    assert table["CREPE"] < 2
    with (tmp_path / "moons.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [(model, "100") for model in MODELS]
    for row in rows:
        assert float(row["error"]) == pytest.approx(table[row["model"]], abs=0.005)


def test_cora_without_data_runs_on_a_stand_in_and_says_so(run, tmp_path):
    text, _ = run("cora", "--root", str(tmp_path / "nowhere"))
    assert "this is a synthetic stand-in, not Cora" in text
    assert list(errors(text)) == MODELS
    assert list(tmp_path.iterdir()) == []


def test_cora_runs_on_the_real_graph(run, data_root):
    if not (data_root / "planetoid" / "Cora" / "raw").is_dir():
        pytest.skip("there is no planetoid/Cora/raw in TG_CREPE_DATA")
    text, _ = run("cora", data=data_root)
    assert "Cora, public split: 2,708 nodes" in text
    table = errors(text)
    assert list(table) == MODELS
    assert all(error < 40 for error in table.values())


def rows(text: str) -> dict[str, float]:
    """The error behind the name of every method, below the header."""
    body = text.split("seconds\n")[1].strip().splitlines()
    return {line[:14].strip(): float(line[14:].split()[0]) for line in body}


def test_planetoid_without_data_runs_on_a_stand_in_and_says_so(run, tmp_path):
    text, _ = run("planetoid", "--root", str(tmp_path / "nowhere"), "--epochs", "8")
    assert "this is a synthetic stand-in, not Cora" in text
    assert "exponents of the pool: network" in text
    found = rows(text)
    assert list(found) == ["GCN", "CREPE", "GCN + CREPE"]
    assert found["GCN + CREPE"] < 60  # a guess has 86
    assert list(tmp_path.iterdir()) == []


def test_features_takes_the_arrays_of_a_user(run, tmp_path):
    generator = np.random.default_rng(0)
    y = np.arange(120) % 3
    np.save(tmp_path / "x.npy", 3 * np.eye(3)[y] + generator.normal(size=(120, 3)))
    np.save(tmp_path / "y.npy", y)
    files = ("--features", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy"))
    text, _ = run("features", *files, "--per-class", "5", "--epochs", "20")
    assert "120 rows, 3 features, 15 labels, error on the 105 others" in text
    found = rows(text)
    assert list(found) == ["head", "CREPE", "head + CREPE"]
    assert found["head + CREPE"] < 15


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(script):
    assert len(script.read_text().splitlines()) < 120
