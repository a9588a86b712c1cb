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
}


@pytest.mark.parametrize("case", LINES)
def test_an_input_is_never_replaced(folder, capsys, case):
    (folder / "x").mkdir()
    before = snapshot(folder)
    assert run(LINES[case].split()) == 2
    assert snapshot(folder) == before
    error = capsys.readouterr().err
    assert "is read by this command and is never replaced" in error
    assert error.count("\n") == 1


def test_a_file_of_a_run_is_not_replaced_by_what_is_read_from_it(folder, capsys):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    before = snapshot(folder)
    assert run(["label-next", "r", "-o", "r/trace.csv", "--force"]) == 2
    assert "never replaced" in capsys.readouterr().err
    assert snapshot(folder) == before


def test_a_folder_with_other_files_is_not_replaced_by_a_run(folder, capsys):
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r"]) == 0
    (folder / "r" / "to-label.csv").write_text("mine")
    before = snapshot(folder)
    assert run(["propagate", "f.csv", "--labels", "labels.csv", "-o", "p.csv", "--run", "r", "--force"]) == 2
    assert "holds 'to-label.csv', which is none of a run's own files" in capsys.readouterr().err
    assert snapshot(folder) == before
