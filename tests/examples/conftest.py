"""A run of an example, and the small data sets in the official layouts that the tests of the loaders write."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_BUILDERS = Path(__file__).parents[1] / "datasets" / "conftest.py"
_spec = importlib.util.spec_from_file_location("small_data_sets", _BUILDERS)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if name.endswith(("_root", "_arrays", "_path"))})


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a script in this process: importing everything anew would take longer than the run."""

    def start(script: str, *arguments: str, data: Path | None = None) -> tuple[str, str]:
        monkeypatch.syspath_prepend(str(EXAMPLES))
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("TG_CREPE_DATA", raising=False)
        if data is not None:
            monkeypatch.setenv("TG_CREPE_DATA", str(data))
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(EXAMPLES / f"{script}.py"), run_name="__main__")
        return tuple(capsys.readouterr())

    return start
