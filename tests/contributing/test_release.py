"""What a release says of itself in several places is the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import tg_crepe

ROOT = Path(tg_crepe.__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_has_one_source():
    assert re.fullmatch(r"\d+\.\d+\.\d+", tg_crepe.__version__)
    assert 'dynamic = ["version"]' in read("pyproject.toml")
    assert 'version = { attr = "tg_crepe.__version__" }' in read("pyproject.toml")
    assert re.findall(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE) == [tg_crepe.__version__]


def test_the_changelog_has_a_section_for_the_version():
    assert re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)[:2] == ["Unreleased", tg_crepe.__version__]


def test_the_workflow_tests_every_python_that_the_project_names():
    named = re.findall(r"Python :: (3\.\d+)", read("pyproject.toml"))
    (matrix,) = re.findall(r"python: \[(.+?)\]", read(".github/workflows/test.yml"))
    assert re.findall(r"3\.\d+", matrix) == named
    assert f'requires-python = ">={named[0]}"' in read("pyproject.toml")
