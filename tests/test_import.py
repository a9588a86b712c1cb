import subprocess
import sys

import pytest

import tg_crepe

EVERYTHING = """
import sys, warnings
warnings.simplefilter("ignore")
import torch_geometric
before = set(sys.modules)
from tg_crepe import *
print(sorted(m for m in set(sys.modules) - before if not m.startswith("tg_crepe")))
"""
NOTHING = "import sys, tg_crepe; print('torch' in sys.modules)"


def output(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_all_public_names_load_nothing_beyond_torch_geometric():
    assert output(EVERYTHING) == "[]"


def test_import_alone_is_light():
    assert output(NOTHING) == "False"


def test_public_names_exist_and_unknown_ones_do_not():
    assert all(getattr(tg_crepe, name).__name__ == name for name in tg_crepe.__all__)
    assert set(tg_crepe.__all__) <= set(dir(tg_crepe))
    with pytest.raises(AttributeError, match="has no attribute 'crepe'"):
        tg_crepe.crepe  # noqa: B018
