from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
import warnings
from pathlib import Path

import pytest

import tg_crepe
from tg_crepe import ConvergenceWarning, GraphWarning, cli

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")

from rich.console import Console

from tg_crepe.cli.app import _plain_warnings, run
from tg_crepe.warnings import DatasetWarning


@pytest.fixture
def without(monkeypatch):
    """Hides an installed package."""
    find_spec = importlib.util.find_spec

    def hide(package: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find_spec(name))

    return hide


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_shows_the_commands_and_an_example(arguments, capsys):
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "demo" in text
    assert "Example: tg-crepe demo" in text


def test_help_of_the_demo_shows_its_options(capsys):
    assert run(["demo", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--out", "--labels-per-class", "--seed", "--force", "Example"))


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tg-crepe {tg_crepe.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "nonsense"),
        (["--nonsense"], "--nonsense"),
        (["demo", "--nonsense"], "--nonsense"),
        (["demo", "extra"], "extra"),
        (["demo", "--seed", "many"], "--seed"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--labels-per-class", "0"], "--labels-per-class"),
        (["demo", "--labels-per-class", "1000"], "--labels-per-class"),
        (["demo", "--out"], "--out"),
    ],
)
def test_bad_arguments_are_one_line_and_leave_nothing_behind(arguments, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert named in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_line_says_what_to_install(package, without, capsys):
    without(package)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"'{package}' is needed here and is not installed: pip install \"tg-crepe[cli]\"\n"


@pytest.mark.parametrize(("package", "extra"), [("sklearn", "sklearn"), ("matplotlib", "report"), ("jinja2", "report")])
def test_without_its_packages_the_demo_says_what_to_install(package, extra, without, capsys, tmp_path):
    for needed in ("sklearn", "matplotlib", "jinja2"):
        pytest.importorskip(needed)
    without(package)
    assert run(["demo", "--out", str(tmp_path / "demo")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f'pip install "tg-crepe[{extra}]"' in captured.err
    assert list(tmp_path.iterdir()) == []


def test_main_ends_with_the_code_of_the_command(monkeypatch, capsys):
    for arguments, code in ((["--version"], 0), (["nonsense"], 2)):
        monkeypatch.setattr(sys, "argv", ["tg-crepe", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == code
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [GraphWarning, ConvergenceWarning, DatasetWarning])
def test_warnings_of_the_package_are_one_line_each(capsys, kind):
    with _plain_warnings(Console(stderr=True)):
        for _ in range(2):
            warnings.warn("3 node(s) [lie] apart " + "x" * 200, kind, stacklevel=1)
        warnings.warn("`torch.jit.script` is deprecated", FutureWarning, stacklevel=1)
    assert capsys.readouterr().err == 2 * ("warning: 3 node(s) [lie] apart " + "x" * 200 + "\n")


def test_module_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tg-crepe", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("tg_crepe", run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tg-crepe {tg_crepe.__version__}\n"


def test_extras_are_imported_by_the_command_line_alone_and_only_when_used():
    package = Path(tg_crepe.__file__).parent
    for path in package.rglob("*.py"):
        if path.parent.name in ("cli", "sklearn"):  # the latter says what to install before it imports anything
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                roots = {name.partition(".")[0] for name in names}
                assert not roots & {"matplotlib", "sklearn", "typer", "rich"}, path
                if path.parent.name not in ("report", "viz"):  # whose own imports of matplotlib are within functions
                    assert "tg_crepe.viz" not in names, path
