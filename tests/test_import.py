import subprocess
import sys

CODE = """
import sys, warnings
warnings.simplefilter("ignore")
import torch_geometric
before = set(sys.modules)
import tg_crepe
print(sorted(m for m in set(sys.modules) - before if not m.startswith("tg_crepe")))
"""


def test_import_loads_nothing_beyond_torch_geometric():
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_public_names_exist():
    import tg_crepe

    assert all(hasattr(tg_crepe, name) for name in tg_crepe.__all__)
