"""Twenty mistakes in a row: after each, one line that says what to do, and nothing written."""

import numpy as np
import pytest
import torch

from tg_crepe.cli.app import run

PROPAGATE = "propagate features.npz --labels labels.csv -o p.csv"


def text(name, content, encoding="utf-8"):
    return lambda folder: (folder / name).write_bytes(content.encode(encoding))


def edited(old, new):
    def edit(folder):
        table = (folder / "labels.csv").read_text()
        (folder / "labels.csv").write_text(table.replace(old, new, 1))

    return edit


MISTAKES = {
    "a class with a typo": (edited(",green", ",gren"), PROPAGATE, "looks like"),
    "a class in another case": (edited(",green", ",Green"), PROPAGATE, "looks like"),
    "labels for other ids": (text("labels.csv", "id,label\n1,a\n2,b\n"), PROPAGATE, "ids look like 'p00'"),
    "one class alone": (text("labels.csv", "id,label\np00,a\n"), PROPAGATE, "at least two classes, got a"),
    "an unedited list": (text("labels.csv", "id,label,guess\np00,,a\np01,,b\n"), PROPAGATE, "two classes, got none"),
    "columns of other names": (text("labels.csv", "name,class\np00,a\n"), PROPAGATE, "must have the columns id, label"),
    "an id twice": (text("labels.csv", "id,label\np00,a\np00,b\n"), PROPAGATE, "the id 'p00' stands there twice"),
    "a table of another encoding": (
        lambda folder: (folder / "labels.csv").write_bytes("id,label\np00,grün\np01,rot\n".encode("latin-1")),
        PROPAGATE,
        "save it as UTF-8",
    ),
    "a row with a comma too many": (text("labels.csv", "id,label\np00,a,b\n"), PROPAGATE, "row 2 has 3 cells"),
    "no such file of labels": (None, PROPAGATE.replace("labels.csv", "lables.csv"), "'lables.csv' is missing"),
    "no such features": (None, PROPAGATE.replace("features", "feature"), "'feature.npz' is missing"),
    "no labels at all": (None, "propagate features.npz -o p.csv", "needs a table of labels"),
    "an output of another kind": (None, PROPAGATE.replace("p.csv", "p.xlsx"), "must end in .csv or .parquet"),
    "an output in no folder": (None, PROPAGATE.replace("p.csv", "no/p.csv"), "does not exist"),
    "an output that is an input": (None, PROPAGATE.replace("p.csv", "labels.csv") + " --force", "never replaced"),
    "an energy that there is not": (None, PROPAGATE + " --energy crape", "must be one of 'crepe'"),
    "more neighbours than rows": (None, PROPAGATE + " -k 500", "'k' must be"),
    "a folder that is no run": (
        lambda folder: (folder / "run").mkdir(),
        "report run -o r.html",
        "'run.json' is missing",
    ),
    "an empty folder of images": (
        lambda folder: (folder / "images").mkdir(),
        "propagate images --labels labels.csv -o p.csv",
        "no image",
    ),
    "features with a hole": (
        lambda folder: np.savez(folder / "features.npz", x=np.full((3, 2), np.nan, np.float32)),
        PROPAGATE,
        "3 row(s) hold NaN",
    ),
    "a network instead of features": (
        lambda folder: torch.save({"layer.weight": torch.zeros(2)}, folder / "features.pt"),
        PROPAGATE.replace("npz", "pt"),
        "it must hold a dense tensor",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(table, monkeypatch, capsys, mistake):
    prepare, line, expected = MISTAKES[mistake]
    monkeypatch.chdir(table)
    if prepare is not None:
        prepare(table)
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    assert run(line.split()) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert said.out == ""
    assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before
