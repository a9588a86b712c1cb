import sys

import pytest

from tg_crepe._optional import available, require


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Writes importable modules that are gone again after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, code):
        names.append(name)
        (tmp_path / f"{name}.py").write_text(code)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_an_installed_module_is_returned(write_module):
    name = write_module("tg_crepe_fake_whole", "answer = 42\n")
    assert require(name, extra="knn").answer == 42
    assert available(name)


def test_a_module_inside_a_package_is_returned():
    import os.path

    assert require("os.path", extra="knn") is os.path


@pytest.mark.parametrize("extra", ["knn", "vision", "all"])
def test_a_missing_package_names_the_extra(extra):
    with pytest.raises(ImportError, match=rf"'tg_crepe_absent' .* not installed: pip install \"tg-crepe\[{extra}\]\""):
        require("tg_crepe_absent", extra=extra)
    assert not available("tg_crepe_absent")


def test_a_missing_module_of_a_missing_package_names_the_package():
    with pytest.raises(ImportError, match="'tg_crepe_absent' is needed here and is not installed"):
        require("tg_crepe_absent.inner", extra="knn")
    assert not available("tg_crepe_absent.inner")


def test_compiled_extensions_are_installed_without_build_isolation():
    with pytest.raises(ImportError, match=r"pip install --no-build-isolation \"tg-crepe\[ext\]\""):
        require("tg_crepe_absent", extra="ext")


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        (
            "tg_crepe_fake_runtime",
            "raise RuntimeError('operator does not exist\\nsecond line')",
            "operator does not exist",
        ),
        ("tg_crepe_fake_os", "raise OSError('undefined symbol: _ZN3c10')", "undefined symbol: _ZN3c10"),
        ("tg_crepe_fake_import", "import tg_crepe_absent", "No module named 'tg_crepe_absent'"),
        ("tg_crepe_fake_attribute", "import os; os.no_such_name", "has no attribute 'no_such_name'"),
        ("tg_crepe_fake_silent", "raise RuntimeError", "RuntimeError"),
        ("tg_crepe_fake_syntax", "def :", "invalid syntax"),
    ],
)
def test_a_package_that_fails_at_import_counts_as_missing_and_says_so(write_module, name, code, reason):
    write_module(name, code)
    with pytest.raises(ImportError, match=rf"'{name}' is installed but cannot be imported") as error:
        require(name, extra="vision")
    message = str(error.value)
    assert reason in message
    assert "second line" not in message
    assert 'pip install "tg-crepe[vision]"' in message
    assert error.value.__cause__ is not None
    assert not available(name)


def test_a_missing_part_of_an_installed_package_says_so(write_module):
    name = write_module("tg_crepe_fake_flat", "")
    with pytest.raises(ImportError, match=rf"'{name}' is installed but cannot be imported"):
        require(f"{name}.inner", extra="knn")


def test_a_broken_extension_is_installed_again_without_build_isolation(write_module):
    name = write_module("tg_crepe_fake_extension", "raise OSError('wrong ABI')")
    with pytest.raises(ImportError, match="reinstall both together: pip install --no-build-isolation"):
        require(name, extra="ext")
