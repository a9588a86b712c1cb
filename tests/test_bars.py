"""Bars of progress are drawn by what notebooks can show too."""

import re
from pathlib import Path

import tg_crepe

FILES = sorted(Path(tg_crepe.__file__).parent.rglob("*.py"))


def test_no_file_draws_bars_for_terminals_alone():
    plain = [path.name for path in FILES if re.search(r"^\s*(from|import) tqdm\b(?!\.auto)", path.read_text(), re.M)]
    assert plain == []
    assert any("from tqdm.auto import" in path.read_text() for path in FILES)
