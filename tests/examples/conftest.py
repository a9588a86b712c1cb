"""The small data sets in the official layouts that the tests of the loaders write."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_BUILDERS = Path(__file__).parents[1] / "datasets" / "conftest.py"
_spec = importlib.util.spec_from_file_location("small_data_sets", _BUILDERS)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if name.endswith(("_root", "_arrays", "_path"))})
