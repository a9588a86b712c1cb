"""A cell is kept as long as the code it depends on is the same."""

import sys

import pytest
from shared.fingerprint import code, fingerprint, fingerprint_of


def test_comments_and_docstrings_do_not_count():
    assert code('def f(x):\n    """Says."""\n    return x  # why\n') == code("def f(x):\n    return x\n")
    assert code("def f(x):\n    return x\n") != code("def f(x):\n    return -x\n")


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "fingerprinted"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "model.py").write_text("def f():\n    from fingerprinted.solver import g\n    return g()\n")
    (folder / "solver.py").write_text("def g():\n    return 1\n")
    (folder / "other.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("fingerprinted")]:
        del sys.modules[name]


@pytest.mark.parametrize(("file", "matters"), [("solver.py", True), ("model.py", True), ("other.py", False)])
def test_changed_import_changes_the_fingerprint(package, file, matters):
    fingerprint.cache_clear()
    before = fingerprint("fingerprinted.model")
    (package / file).write_text((package / file).read_text() + "y = 2\n")
    fingerprint.cache_clear()
    assert (fingerprint("fingerprinted.model") != before) == matters


def test_fingerprint_of_parts_is_that_of_their_code_alone():
    assert fingerprint_of(code) == fingerprint_of(code)
    assert len({fingerprint_of(code), fingerprint_of(fingerprint_of), fingerprint_of(code, fingerprint_of)}) == 3
