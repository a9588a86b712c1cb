from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import mean_colour, write_images, write_labels

from tg_crepe.cli.app import run
from tg_crepe.embed import embed, get_encoder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with images, and a run on their colours."""
    monkeypatch.chdir(tmp_path)
    write_labels(Path("labels.csv"), write_images(tmp_path / "images"))
    embed("images", get_encoder(mean_colour, kind="images")).save("features.npz")
    line = ["propagate", "features.npz", "--labels", "labels.csv", "-k", "5", "-o", "a.csv", "--run", "run"]
    assert run(line) == 0
    return tmp_path


@pytest.mark.parametrize(("tool", "ending"), [("label-studio", "json"), ("fiftyone", "json")])
def test_a_run_becomes_a_file_of_another_tool(place, tool, ending, capsys):
    capsys.readouterr()
    assert run(["export", "run", "--to", tool, "--files", "images", "-o", f"out.{ending}"]) == 0
    said = capsys.readouterr().out
    assert "30 items, 6 labels given, 24 inferred" in said
    assert ("<View>" in said) == (tool == "label-studio")
    content = json.loads(Path(f"out.{ending}").read_text())
    assert len(content["labels"] if tool == "fiftyone" else content) == 30


LINES = {
    "an unknown tool": (["run", "--to", "excel", "-o", "a.json"], "'--to' must be one of"),
    "another ending": (["run", "--to", "fiftyone", "-o", "b.txt"], "must end in .json"),
    "no run": (["images", "--to", "fiftyone", "-o", "b.json"], "is not a whole run"),
    "names alone for a tool of images": (
        ["run", "--to", "fiftyone", "-o", "b.json"],
        "shows images in files",
    ),
    "other files": (["run", "--to", "fiftyone", "--files", "labels.csv", "-o", "b.json"], "labels.csv' "),
    "an address for a tool without": (["run", "--to", "fiftyone", "--url", "x", "-o", "b.json"], "goes with --to"),
    "a file that is there": (["run", "--to", "label-studio", "-o", "features.npz"], "must end in .json"),
}


@pytest.mark.parametrize("case", LINES)
def test_what_a_user_can_put_right_is_one_line(case, place, capsys):
    line, message = LINES[case]
    before = sorted(path.name for path in place.iterdir())
    capsys.readouterr()
    assert run(["export", *line]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert message in error
    assert "\n" not in error
    assert sorted(path.name for path in place.iterdir()) == before


def test_names_alone_are_enough_for_label_studio(place):
    assert run(["export", "run", "--to", "label-studio", "-o", "out.json"]) == 0
    tasks = json.loads(Path("out.json").read_text())
    assert tasks[0]["data"] == {"id": "000.png"}
    assert np.mean(["annotations" in task for task in tasks]) == 6 / 30


def test_the_texts_are_those_of_the_column_that_the_run_was_made_of(place, capsys):
    names = [line.split(",")[0] for line in Path("a.csv").read_text().splitlines()[1:]]
    rows = [f"{name},a text,question {number}\n" for number, name in enumerate(names)]
    Path("texts.csv").write_text("id,text,question\n" + "".join(rows))
    info = json.loads(Path("run/run.json").read_text())
    info["settings"] |= {"features": "texts.csv", "embedding": "a model", "text": "question"}
    Path("run/run.json").write_text(json.dumps(info))
    assert run(["export", "run", "--to", "label-studio", "-o", "a.json"]) == 0
    assert json.loads(Path("a.json").read_text())[1]["data"]["text"] == "question 1"
    assert run(["export", "run", "--to", "label-studio", "--text", "text", "-o", "b.json"]) == 0
    assert json.loads(Path("b.json").read_text())[1]["data"]["text"] == "a text"
