"""The contest's one command hands every question to the one that answers it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from contest import questions

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", questions.QUESTIONS)
def test_a_question_is_answered_by_its_own_command_with_the_other_arguments(name, monkeypatch):
    pytest.importorskip("sklearn")
    seen = []
    module = importlib.import_module(questions.QUESTIONS[name][0])
    monkeypatch.setattr(module, "main", lambda: seen.append(sys.argv))
    monkeypatch.setattr(sys, "argv", ["contest", name, "--seeds", "100", "101"])
    questions.main()
    assert seen == [[f"contest {name}", "--seeds", "100", "101"]]


@pytest.mark.parametrize("arguments", [[], ["energy"]])
def test_an_unknown_question_is_told_what_there_is(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["contest", *arguments])
    with pytest.raises(SystemExit, match="QUESTION must be one of these") as stop:
        questions.main()
    assert all(f"  {name} " in str(stop.value.code) for name in questions.QUESTIONS)


def test_the_folder_is_a_command(capfd):
    found = subprocess.run(
        [sys.executable, BENCHMARKS / "contest", "--help"], capture_output=True, text=True, check=True
    )
    assert "energy against energy" in found.stdout
