from __future__ import annotations

from pathlib import Path

import pytest
from cli_inputs import write_clusters


@pytest.fixture
def table(tmp_path) -> Path:
    """A folder with features.npz and labels.csv."""
    write_clusters(tmp_path)
    return tmp_path
