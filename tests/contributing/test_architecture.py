"""The architecture page names what a call really walks through."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

import tg_crepe
from tg_crepe import CrepePropagation, FeatureKNNGraph

PACKAGE = Path(tg_crepe.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: Files and folders of the package, a folder with a slash at its end.
NAMED = {name for name in re.findall(r"`((?:\w+/)*(?:\w+\.py|\w+/))`", PAGE) if not name.startswith("tests/")}


def test_every_file_that_the_page_names_exists():
    assert len(NAMED) > 30
    assert {name for name in NAMED if not (PACKAGE / name).exists()} == set()


def test_every_file_between_x_and_pseudo_y_is_on_the_page():
    y = torch.arange(300) % 3
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)) + 2 * torch.nn.functional.one_hot(y, 8)
    data = Data(x=x, y=y, train_mask=torch.arange(300) < 15)
    transform = T.Compose([FeatureKNNGraph(k=10), CrepePropagation()])
    transform(data.clone())  # what is imported or compiled once is not part of the walk
    walk = runpy.run_path(str(ROOT / "benchmarks" / "walk.py"))["walk"]
    modules = [name.split(".") for _, name in walk(transform, data)]
    files = {("/".join(path) + ".py", "/".join(path[:-1]) + "/") for path in modules}
    assert len(files) > 20
    assert {file for file, folder in files if not {file, folder} & NAMED} == set()
