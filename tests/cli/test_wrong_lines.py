from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

from tg_crepe.cli.app import run
from tg_crepe.runs import RunFolder


def write(name: str, text: str | bytes):
    """Makes a step that writes a file into the folder of a test."""

    def step(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return step


def save(name: str, **arrays):
    """Makes a step that writes arrays."""
    return lambda folder: np.savez(folder / name, **arrays)


def images(folder: Path, sizes=((8, 8), (9, 8))) -> None:
    from PIL import Image

    for place, size in enumerate(sizes):
        target = folder / "images" / "ab"[place % 2]
        target.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(target / f"{place}.png")


def mixed_sizes(folder: Path) -> None:
    pytest.importorskip("PIL", reason="images need the extra 'vision'")
    images(folder)


def a_run_without_a_graph(folder: Path) -> None:
    RunFolder.create(folder / "run", "propagate", {})


def a_run_of_the_future(folder: Path) -> None:
    write("run/run.json", '{"program": "tg-crepe", "format": 99}')(folder)


def earlier_run(folder: Path) -> None:
    RunFolder.create(folder / "r", "propagate", {})


FEATURES = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "out.csv"]


def features(name: str, *more: str) -> list[str]:
    return ["propagate", name, "--labels", "labels.csv", "-o", "out.csv", *more]


def labels(name: str) -> list[str]:
    return ["propagate", "features.npz", "--labels", name, "-o", "out.csv"]


def truth(name: str) -> list[str]:
    return [*FEATURES, "--run", "r", "--truth", name]


X = np.ones((4, 2), np.float32)

#: What is made first, the command line, and what the one line says.
LINES = {
    "features are missing": (None, features("no.npy"), "no.npy' is missing"),
    "labels are missing": (None, labels("no.csv"), "no.csv' is missing"),
    "no labels are given": (None, ["propagate", "features.npz", "-o", "out.csv"], "'--labels'"),
    "no output is given": (None, ["propagate", "features.npz", "--labels", "labels.csv"], "--out"),
    "features of another format": (write("x.txt", "1 2"), features("x.txt"), "must end in one of .npy"),
    "a damaged npy": (write("x.npy", b"\x93NUMPY\x01\x00"), features("x.npy"), "not a whole .npy"),
    "a pickled npy": (
        lambda folder: np.save(folder / "x.npy", np.array([{}], dtype=object)),
        features("x.npy"),
        "not a whole .npy",
    ),
    "a damaged npz": (write("x.npz", b"PK\x03\x04"), features("x.npz"), "not a whole .npz"),
    "an npz of two arrays": (save("x.npz", z=X, v=X), features("x.npz"), "must hold the features as the array 'x'"),
    "a damaged pt": (write("x.pt", b"nothing"), features("x.pt"), "not a whole file of tensors"),
    "a pt of something else": (lambda folder: torch.save([1], folder / "x.pt"), features("x.pt"), "a dense tensor"),
    "an unreadable csv": (write("x.csv", b"id,a\n1,2,3\n"), features("x.csv"), "not a whole csv"),
    "an empty csv": (write("x.csv", ""), features("x.csv"), "not a whole csv"),
    "a csv with words": (write("x.csv", "id,a\np0,high\np1,low\n"), features("x.csv"), "column 'a' must hold numbers"),
    "a csv with blanks": (write("x.csv", "id,a,b\np0,1,\np1,2,3\n"), features("x.csv"), "column 'b' has 1 blank cell"),
    "a damaged parquet": (write("x.parquet", b"PAR1"), features("x.parquet"), "not a whole parquet"),
    "one-dimensional features": (save("x.npz", x=np.ones(5)), features("x.npz"), "an array of shape [5]"),
    "no rows": (save("x.npz", x=np.ones((0, 3))), features("x.npz"), "an array of shape [0, 3]"),
    "complex numbers": (save("x.npz", x=X * 1j), features("x.npz"), "must hold real numbers"),
    "NaN": (save("x.npz", x=np.array([[1, 2], [np.nan, 0]])), features("x.npz"), "the first is '1'"),
    "duplicate ids": (save("x.npz", x=X, ids=["a", "b", "a", "c"]), features("x.npz"), "'a' stands there twice"),
    "too few ids": (save("x.npz", x=X, ids=["a", "b"]), features("x.npz"), "got 2 names"),
    "an unknown id": (write("l.csv", "id,label\np00,red\nnobody,blue\n"), labels("l.csv"), "the first is 'nobody'"),
    "an id twice": (write("l.csv", "id,label\np00,red\np00,blue\n"), labels("l.csv"), "'p00' stands there twice"),
    "a wrong column": (write("l.csv", "id,class\np00,red\n"), labels("l.csv"), "must have the columns id, label"),
    "a ragged row": (write("l.csv", "id,label\np00\n"), labels("l.csv"), "row 2 has 1 cells"),
    "labels that are no text": (write("l.csv", b"id,label\n\xff\xfe,red\n"), labels("l.csv"), "not UTF-8"),
    "no label at all": (write("l.csv", "id,label\np00,\n"), labels("l.csv"), "at least two classes, got none"),
    "one class alone": (write("l.csv", "id,label\np00,red\n"), labels("l.csv"), "at least two classes, got red"),
    "truth without a run": (
        write("t.csv", "id,label\np00,red\n"),
        [*FEATURES, "--truth", "t.csv"],
        "--run must name it",
    ),
    "no such truth": (None, truth("t.csv"), "the table of true labels 't.csv' is missing"),
    "truth in no column": (None, truth("gold"), "must have the columns id, gold"),
    "truth of nobody": (write("t.csv", "id,label\nq,red\n"), truth("t.csv"), "the first is 'q'"),
    "truth without a label": (write("t.csv", "id,label\np00,\n"), truth("t.csv"), "a true label at least, got none"),
    "truth of another class": (
        write("t.csv", "id,label\np00,pink\n"),
        truth("t.csv"),
        "the true label 'pink' is none of",
    ),
    "truth given twice": (write("t.csv", "id,label\np00,red\np00,red\n"), truth("t.csv"), "stands there twice"),
    "an unknown model": (None, [*FEATURES, "--model", "magic"], "'magic'"),
    "an unknown energy": (None, [*FEATURES, "--energy", "lgcc"], "'--energy' must be one of 'crepe'"),
    "an unknown metric": (None, [*FEATURES, "--metric", "taxi"], "'metric' must be one of"),
    "no neighbour": (None, [*FEATURES, "-k", "0"], "-k"),
    "too many neighbours": (None, [*FEATURES, "-k", "60"], "'k' must be an integer in [1, num_nodes - 1], got 60"),
    "an output of another format": (None, [*FEATURES[:-1], "out.xlsx"], "must end in .csv or .parquet"),
    "an output that is there": (write("out.csv", "mine"), FEATURES, "out.csv exists; --force"),
    "an output in no folder": (None, [*FEATURES[:-1], "no/out.csv"], "does not exist"),
    "an output that is a folder": (lambda f: (f / "o.csv").mkdir(), [*FEATURES[:-1], "o.csv"], "is a folder"),
    "a run in a folder in use": (write("r/thesis.tex", "x"), [*FEATURES, "--run", "r", "--force"], "is left alone"),
    "an earlier run": (earlier_run, [*FEATURES, "--run", "r"], "--force replaces it"),
    "a folder without an image": (lambda f: (f / "images").mkdir(), features("images"), "the folder holds no image"),
    "a network without weights": (
        lambda f: (f / "images").mkdir(),
        features("images", "--backbone", "resnet18"),
        "they go together",
    ),
    "a column of texts for numbers": (None, [*FEATURES, "--text", "text"], "a folder of images or a table of texts"),
    "a pretrained model for features that do not name theirs": (
        None,
        [*FEATURES, "--model", "timm:resnet18"],
        "does not say which model made them",
    ),
    "an empty folder": (
        lambda f: ((f / "images").mkdir(), (f / "w.pt").touch()),
        features("images", "--backbone", "small_cnn", "--checkpoint", "w.pt"),
        "holds no image",
    ),
    "mixed image sizes": (
        mixed_sizes,
        features("images", "--backbone", "small_cnn", "--checkpoint", "w.pt"),
        "state 'size'",
    ),
    "a network for a file": (None, [*FEATURES, "--backbone", "small_cnn"], "goes with a folder of images"),
    "a run that is none": (lambda f: (f / "run").mkdir(), ["label-next", "run"], "'run.json' is missing"),
    "a run that is not there": (None, ["label-next", "run"], "is not a folder"),
    "features for a run": (None, ["label-next", "features.npz"], "is no run, and files need a table of labels"),
    "images for a run": (images, ["report", "images"], "'images' is no run, and files need a table of labels"),
    "a run of another version": (a_run_of_the_future, ["label-next", "run"], "its format is 99"),
    "a run without results": (a_run_without_a_graph, ["label-next", "run"], "'result.npz' is missing"),
    "an unknown strategy": (a_run_without_a_graph, ["label-next", "run", "--strategy", "guess"], "'strategy' must be"),
    "no suggestion": (a_run_without_a_graph, ["label-next", "run", "-n", "0"], "-n"),
    "a report of nothing": (None, ["report", "run"], "is not a folder"),
    "a report as text": (a_run_without_a_graph, ["report", "run", "-o", "report.txt"], "must end in .html"),
    "training on nothing": (None, ["train", "nowhere"], "must be a folder of images"),
    "training with an unknown preset": (None, ["train", "digits", "--preset", "huge"], "'name' must be one of"),
    "training with an unknown energy": (None, ["train", "digits", "--energy", "magic", "--run", "r"], "magic"),
    "training into a folder in use": (write("r/a", ""), ["train", "digits", "--run", "r", "--force"], "is left alone"),
    "training without a label": (
        lambda f: (images(f), write("l.csv", "id,label\na/0.png,\n")(f)),
        ["train", "images", "--labels", "l.csv", "--run", "r"],
        "'l.csv' cannot be used: it must hold labels of at least two classes, got none",
    ),
    "training on one class": (
        lambda f: (images(f), write("l.csv", "id,label\na/0.png,red\nb/1.png,red\n")(f)),
        ["train", "images", "--labels", "l.csv", "--run", "r"],
        "at least two classes, got red",
    ),
    "an option of nobody": (None, ["doctor", "--fix"], "--fix"),
    "an option before its command": (None, ["-o", "out.csv", *FEATURES[:-2]], "; the command comes first"),
    "features before the command": (None, ["features.npz", "propagate"], "; the command comes first"),
}


def listing(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("case", LINES)
def test_a_wrong_line_is_one_line_and_leaves_nothing_behind(case, table, monkeypatch, capsys):
    prepare, arguments, message = LINES[case]
    if prepare is not None:
        prepare(table)
    monkeypatch.chdir(table)
    before = listing(table)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert listing(table) == before


def test_a_folder_that_cannot_be_written(table, monkeypatch, capsys):
    monkeypatch.chdir(table)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write
    assert run(FEATURES) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["csv", "parquet", "run"])
def test_a_full_disk(where, table, monkeypatch, capsys):
    def fail(*arguments, **options):
        for argument in arguments:
            if isinstance(argument, Path):
                argument.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    target = {"csv": "pyarrow.csv.write_csv", "parquet": "pyarrow.parquet.write_table", "run": "numpy.savez"}[where]
    monkeypatch.chdir(table)
    monkeypatch.setattr(target, fail)
    out = "out.parquet" if where == "parquet" else "out.csv"
    before = listing(table)
    assert run(["propagate", "features.npz", "--labels", "labels.csv", "-o", out, "--run", "run", "-k", "8"]) == 2
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"
    after = listing(table)
    after.pop("out.csv" if where == "run" else "", None)  # it was whole before the run could not be kept
    assert after == before


def test_debug_shows_the_traceback_wherever_it_stands(table, monkeypatch, capsys):
    monkeypatch.chdir(table)
    for line in (["--debug", *features("no.npy")], features("no.npy", "--debug")):
        assert run(line) == 2
        text = capsys.readouterr().err
        assert "Traceback" in text
        assert "FileNotFoundError" in text
        assert text.splitlines()[-1].startswith("error: ")
