"""-o and --run that name an input, or a folder with something in it: never, forced or not."""

import pytest

from tg_crepe.cli.app import run


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(table, monkeypatch):
    monkeypatch.chdir(table)
    import numpy as np

    with np.load("features.npz") as file:
        rows = [f"{name}," + ",".join(map(str, row)) for name, row in zip(file["ids"], file["x"], strict=True)]
    (table / "f.csv").write_text("id,a,b,c,d\n" + "\n".join(rows) + "\n")
    (table / "truth.csv").write_text((table / "labels.csv").read_text())
    (table / "link.csv").symlink_to(table / "labels.csv")
    return table


LINES = {
    "features": "propagate f.csv --labels labels.csv -o f.csv --force",
    "labels": "propagate f.csv --labels labels.csv -o labels.csv --force",
    "labels by another name": "propagate f.csv --labels labels.csv -o ./x/../labels.csv --force",
    "labels by a link": "propagate f.csv --labels link.csv -o labels.csv --force",
    "truth": "propagate f.csv --labels labels.csv --truth truth.csv --run r -o truth.csv --force",
    "table of label-next": "label-next f.csv --labels labels.csv -o labels.csv --force",
    "source of label": "label f.csv --export f.csv --force",
    "labels of label": "label f.csv --labels labels.csv --export labels.csv --force",
    "what label shows": "label f.csv --show truth.csv --text label --export truth.csv --force",
    "project of label": "label f.csv --project x --export x/project.json --force",
}


@pytest.mark.parametrize("case", LINES)
def test_an_input_is_never_replaced(folder, capsys, case):
    (folder / "x").mkdir()
    (folder / "x" / "project.json").write_text("{}")
    before = snapshot(folder)
    assert run(LINES[case].split()) == 2
    assert snapshot(folder) == before
    error = capsys.readouterr().err
    assert "is an input and is never replaced" in error
    assert error.count("\n") == 1


def test_a_file_of_a_run_is_not_replaced_by_what_is_read_from_it(folder, capsys):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    before = snapshot(folder)
    assert run(["label-next", "r", "-o", "r/trace.csv", "--force"]) == 2
    assert "never replaced" in capsys.readouterr().err
    assert snapshot(folder) == before


@pytest.mark.parametrize("out", ["f.csv", "labels.csv", "truth.csv"])
def test_a_list_of_what_to_label_does_not_replace_what_the_run_was_made_of(folder, capsys, out):
    line = "propagate f.csv --labels labels.csv --labels more.csv --truth truth.csv -o p.csv --run r"
    (folder / "more.csv").write_text("id,label\n")
    assert run(line.split()) == 0
    before = snapshot(folder)
    assert run(["label-next", "r", "-o", out, "--force"]) == 2
    assert "is an input and is never replaced" in capsys.readouterr().err
    assert snapshot(folder) == before
    assert run(["label-next", "r", "-o", "next.csv"]) == 0
    assert run(["label-next", "r", "-o", "next.csv", "--force"]) == 0


@pytest.mark.parametrize("out", ["r/run.json", "items.json"])
def test_export_replaces_neither_the_run_nor_its_files(folder, capsys, out):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    (folder / "items.json").write_text("{}")
    before = snapshot(folder)
    assert run(["export", "r", "--to", "label-studio", "--files", "items.json", "-o", out, "--force"]) == 2
    assert "never replaced" in capsys.readouterr().err
    assert snapshot(folder) == before


def test_export_does_not_replace_the_files_that_a_run_says_it_was_made_of(folder, capsys):
    pytest.importorskip("datasets", reason="Parquet with images needs the extra 'huggingface'")
    import json

    import pyarrow.parquet

    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    names = [line.split(",")[0] for line in (folder / "f.csv").read_text().splitlines()[1:]]
    table = pyarrow.table({"id": names, "text": [f"text {name}" for name in names]})
    pyarrow.parquet.write_table(table, folder / "texts.parquet")
    info = json.loads((folder / "r" / "run.json").read_text())
    info["settings"] |= {"features": str(folder / "texts.parquet"), "embedding": "a model"}
    (folder / "r" / "run.json").write_text(json.dumps(info))
    before = snapshot(folder)
    assert run(["export", "r", "--to", "huggingface", "-o", "texts.parquet", "--force"]) == 2
    assert "never replaced" in capsys.readouterr().err
    assert snapshot(folder) == before


def test_a_table_within_the_folder_of_the_run_is_refused_before_any_work(folder, capsys):
    (folder / "r").mkdir()
    before = snapshot(folder)
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "./r/p.csv", "--run", "r"]) == 2
    assert "lies in the folder of the run" in capsys.readouterr().err
    assert snapshot(folder) == before


@pytest.mark.parametrize("name", ["notes.txt", ".gitignore"])
@pytest.mark.parametrize(
    "line", ["propagate f.csv --labels labels.csv -o q.csv --run r --force", "train digits --epochs 1 --run r --force"]
)
def test_force_removes_nothing_but_an_earlier_run(folder, capsys, line, name):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    (folder / "r" / name).write_text("mine")
    before = snapshot(folder)
    assert run(line.split()) == 2
    assert f"holds '{name}', which is none of a run's own files" in capsys.readouterr().err
    assert snapshot(folder) == before


def test_a_folder_with_other_files_is_not_replaced_by_a_run(folder, capsys):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    (folder / "r" / "to-label.csv").write_text("mine")
    before = snapshot(folder)
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r", "--force"]) == 2
    assert "holds 'to-label.csv', which is none of a run's own files" in capsys.readouterr().err
    assert snapshot(folder) == before
