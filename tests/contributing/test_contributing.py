"""What CONTRIBUTING.md tells a contributor to write is written, registered and run."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tg_crepe

ROOT = Path(tg_crepe.__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: The Python blocks by the path in their first line.
BLOCKS = {found[1]: found[0] for found in re.findall(r"```python\n(# ([\w/]+\.py)\n.*?)```", PAGE, re.DOTALL)}


@pytest.fixture
def contribute(tmp_path, monkeypatch):
    """Puts blocks where they say they belong: in a folder of the package, or beside the user's script."""
    known = set(sys.modules)

    def write(*paths: str) -> Path:
        for path in map(Path, paths):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(BLOCKS[path.as_posix()], encoding="utf-8")
            if path.parts[0] == "tg_crepe":
                package = importlib.import_module(".".join(path.parent.parts))
                monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / path.parent)])
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    yield write
    names = {Path(path).stem for path in BLOCKS}
    for name in [name for name in set(sys.modules) - known if name.rpartition(".")[2] in names]:
        del sys.modules[name]


def test_every_python_block_says_where_it_belongs():
    assert len(BLOCKS) == PAGE.count("```python")


def test_a_model_is_one_file_one_test_file_and_one_line(contribute, monkeypatch):
    folder = contribute("tg_crepe/models/lazy_walk.py", "tests/models/test_lazy_walk.py")
    line = BLOCKS["tg_crepe/models/registry.py"].splitlines()[1]
    for name, kind in ast.literal_eval("{" + line + "}").items():
        monkeypatch.setitem(tg_crepe.models.ENERGY_MODELS, name, kind)
    claims = runpy.run_path(str(folder / "tests/models/test_lazy_walk.py"))
    tests = [test for name, test in claims.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_a_data_set_is_one_file_and_one_name(contribute, monkeypatch, tmp_path):
    registry = importlib.import_module("tg_crepe.datasets.registry")
    contribute("tg_crepe/datasets/sensor_images.py")
    monkeypatch.setattr(registry, "DATASETS", (*registry.DATASETS, "sensor_images"))
    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.integers(0, 256, (10, 4, 4), dtype=np.uint8))
    np.save(tmp_path / "labels.npy", np.arange(10) % 2)
    dataset = registry.get_dataset("sensor_images", tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (8, 2)
    assert dataset.fetch(dataset.train).shape == (8, 1, 4, 4)


def test_a_command_is_one_file_and_one_name(contribute, monkeypatch, tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    cli = importlib.import_module("tg_crepe.cli.app")
    from tg_crepe.runs import RunFolder, RunResult

    contribute("tg_crepe/cli/count.py")
    monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))
    cli.app.command()(importlib.import_module("tg_crepe.cli.count").count)
    run = RunFolder.create(tmp_path / "run", command="propagate", settings={})
    run.write_result(
        RunResult(
            ids=np.array(["a", "b", "c"]),
            label=np.array([0, 1, 1]),
            prob=np.full((3, 2), 0.5),
            certainty=np.zeros(3),
            reached=np.ones(3, dtype=bool),
            labelled=np.zeros(3, dtype=bool),
            class_names=np.array(["cat", "dog"]),
        )
    )
    assert cli.run(["count", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == "cat: 1\ndog: 2\n"


def test_a_source_and_a_callback_are_one_file_each(contribute, capsys):
    for package in ("accelerate", "torchmetrics", "sklearn"):
        pytest.importorskip(package, reason=f"training needs {package}, extra 'all'")
    folder = contribute("agreement.py", "label_changes.py", "two_epochs.py")
    result = runpy.run_path(str(folder / "two_epochs.py"))
    trainer, changes = result["trainer"], result["changes"]
    assert len(trainer.history) == 2
    assert changes.share  # the hybrid epoch and the last look
    agreed = trainer.data.pseudo_mask & ~trainer.data.train_mask
    assert 0 < int(agreed.sum()) <= int((~trainer.data.train_mask).sum())
    assert torch.equal(trainer.data.pseudo_y[trainer.data.train_mask], trainer.data.y[trainer.data.train_mask])
    assert str(trainer.final["error"]) in capsys.readouterr().out
