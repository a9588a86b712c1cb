from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data_root() -> Path:
    """The folder of real data that TG_CREPE_DATA names; tests that need it are skipped where there is none."""
    root = os.environ.get("TG_CREPE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("TG_CREPE_DATA does not name a folder with the real data sets")
    return Path(root)
