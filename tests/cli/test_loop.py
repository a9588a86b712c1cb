"""The documented loop, walked as the tutorial says: label, ask what to label next, label that, again."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import cluster_points

from tg_crepe.cli.app import run

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
NAMES = ("red", "green", "blue")


def commands() -> list[list[str]]:
    """The lines of the tutorial's bash blocks that the loop on features is made of."""
    blocks = re.findall(r"```bash\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.split() for block in blocks for line in block.splitlines() if line.startswith("tg-crepe ")]
    return [line[1:] for line in lines]


@pytest.fixture
def truth_of(table, monkeypatch):
    monkeypatch.chdir(table)
    _, y, ids = cluster_points()
    rows = [f"{name},{NAMES[c]}" for name, c in zip(ids, y, strict=True)]
    (table / "truth.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    return {name: NAMES[c] for name, c in zip(ids, y, strict=True)}


def labelled(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


def test_the_loop_of_the_tutorial(table, truth_of, capsys):
    propagate = next(line for line in commands() if line[0] == "propagate" and "--run" in line)
    ask = next(line for line in commands() if line[0] == "label-next")
    assert run(propagate) == 0
    folder, list_ = propagate[propagate.index("--run") + 1], ask[ask.index("-o") + 1]
    out = propagate[propagate.index("-o") + 1]
    assert run([ask[0], folder, *ask[2:]]) == 0
    assert f"written: {list_}" in capsys.readouterr().out

    # Nobody has looked at the list: it changes nothing.
    before = labelled(out)
    assert "--labels labels.csv --labels to-label.csv" in TUTORIAL.read_text(encoding="utf-8")
    both = [*propagate, "--labels", list_, "--force"]
    assert run(both) == 0
    assert labelled(out) == before
    assert "6 of them labelled" in capsys.readouterr().out

    # Some rows are filled in, others stay blank.
    with open(list_, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row["label"] == "" for row in rows)
    for row in rows[:5]:
        row["label"] = truth_of[row["id"]]
    with open(list_, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert run(both) == 0
    said = capsys.readouterr().out
    assert "11 of them labelled" in said
    assert "some labels were asked for" in said
    after = labelled(out)
    assert np.mean([after[name] == truth_of[name] for name in after]) > 0.9
    assert all(after[row["id"]] == row["label"] for row in rows[:5])

    # A table that contradicts the first names the row.
    known = next(name for name, label in labelled("labels.csv").items() if label == "red")
    (table / "other.csv").write_text(f"id,label\n{known},blue\n")
    assert run([*propagate, "--labels", "other.csv", "--force"]) == 2
    assert f"it calls '{known}' blue, a table before it says red" in capsys.readouterr().err
