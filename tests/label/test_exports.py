import csv
import json
import os
import warnings

import numpy as np
import pytest
from label_projects import answer_truly, make_project, solve_now

pytest.importorskip("PIL", reason="images need the extra 'label'")

from tg_crepe.label import Session
from tg_crepe.label.exports import export, export_folder
from tg_crepe.label.imports import import_labels
from tg_crepe.warnings import GraphWarning


@pytest.fixture
def labelled(tmp_path):
    project, truth = make_project(tmp_path, images=True)
    session = Session(project)
    session.add_classes("classes-of-the-test", ["../red", "<b>green</b>", "blue"])
    answer_truly(session, truth, [0, 1, 2, 3, 4, 5])
    solve_now(session)
    yield session, truth
    session.close()


def test_the_table_of_all_labels_keeps_given_ones_and_says_which_they_are(labelled, tmp_path):
    session, truth = labelled
    export(session, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ["../red", "<b>green</b>", "blue"]
    assert [row["given"] for row in rows] == 6 * ["true"] + 84 * ["false"]
    assert np.mean([row["label"] == names[number] for row, number in zip(rows, truth, strict=True)]) > 0.95
    for row in rows[6:]:
        share = [float(row[f"prob_{name}"]) for name in names]
        assert names[int(np.argmax(share))] == row["label"]
        assert sum(share) == pytest.approx(1, abs=1e-4)


def test_parquet_holds_the_same_as_csv(labelled, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra 'cli'")
    session, _ = labelled
    export(session, tmp_path / "all.parquet")
    export(session, tmp_path / "all.csv")
    table = parquet.read_table(tmp_path / "all.parquet").to_pydict()
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert table["label"] == [row["label"] for row in rows]
    np.testing.assert_allclose(table["certainty"], [float(row["certainty"]) for row in rows], atol=1e-5)


def test_data_is_ready_for_a_model(labelled, tmp_path):
    import torch

    from tg_crepe import CrepePropagation

    session, truth = labelled
    export(session, tmp_path / "data.pt")
    data = torch.load(tmp_path / "data.pt", weights_only=False)
    assert data.class_names == ["../red", "<b>green</b>", "blue"]
    assert data.train_mask.sum() == 6
    assert (data.y[~data.train_mask] == -1).all()
    assert data.y[:3].tolist() == [0, 1, 2]
    assert (data.pseudo_y == torch.from_numpy(truth)).double().mean() > 0.95
    again = CrepePropagation(sampling="chosen")(data.clone())
    assert again.pseudo_y.shape == data.pseudo_y.shape


def test_label_studio_comes_back_as_it_went(labelled, tmp_path):
    session, _ = labelled
    export(session, tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    scores = [task["predictions"][0]["score"] for task in tasks if "predictions" in task]
    assert len(scores) == 84
    assert all(0 <= score <= 1 for score in scores)
    other, _ = make_project(tmp_path / "other", images=True)
    target = Session(other)
    assert import_labels(target, tmp_path / "tasks.json") == 6
    assert import_labels(target, tmp_path / "tasks.json") == 0, "the same file twice changes nothing"
    assert {i: target.book.name(a.class_id) for i, a in target.book.answers.items()} == {
        i: session.book.name(a.class_id) for i, a in session.book.answers.items()
    }
    target.close()


def test_a_table_of_labels_is_taken_over(labelled, tmp_path):
    session, _ = labelled
    path = tmp_path / "labels.csv"
    path.write_text("id,label\nitem-010.png,blue\nitem-011.png,violet\nitem-012.png,\n")
    assert import_labels(session, path) == 2
    assert session.book.name(session.book.answers[11].class_id) == "violet"
    path.write_text("id,label\nitem-010.png,blue\nelsewhere.png,blue\n")
    with pytest.raises(ValueError, match=r"1 of its ids are not among the items, the first is 'elsewhere.png'"):
        import_labels(session, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not whole JSON"),
        ('{"a": 1}', "a list of tasks"),
        ('[{"data": {"image": "x"}}]', r"task 0 has no data.id"),
        ('[{"id": "item-000.png", "choice": "a"}, {"id": "item-000.png", "choice": "b"}]', "both a and b"),
    ],
)
def test_wrong_exports_of_label_studio_are_clear_errors(labelled, tmp_path, text, message):
    path = tmp_path / "tasks.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        import_labels(labelled[0], path)


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_slip_in_the_name_of_a_class_is_an_error_and_nothing_is_written(labelled, tmp_path, ending):
    session, path = labelled[0], tmp_path / f"labels.{ending}"
    names = dict.fromkeys(session.project.ids[20:40], "zebra") | {session.project.ids[40]: "zebar"}
    if ending == "csv":
        path.write_text("id;label\n" + "".join(f"{name}; {label}\n" for name, label in names.items()))
    else:
        path.write_text(json.dumps([{"id": name, "label": label} for name, label in names.items()]))
    before = session.book.last
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # of the spaces in the table
        with pytest.raises(ValueError, match=r"the class 'zebar' \(1 label\(s\)\) looks like 'zebra' \(20\)"):
            import_labels(session, path)
        assert session.book.last == before
        session.add_classes("meant-so", ["zebar"])
        assert import_labels(session, path) == 21


def test_images_are_sorted_into_folders_that_stay_inside(labelled, tmp_path):
    session, truth = labelled
    assert export_folder(session, tmp_path / "sorted") == 90
    folders = sorted(os.listdir(tmp_path / "sorted"))
    assert folders == ["_b_green__b_", "_red", "blue"]
    blue = list((tmp_path / "sorted" / "blue").iterdir())
    assert all(link.is_symlink() and link.resolve().parent == (tmp_path / "images").resolve() for link in blue)
    assert np.mean([truth[int(link.stem[-3:])] == 2 for link in blue]) > 0.95
    assert export_folder(session, tmp_path / "sorted") == 90, "what is there is replaced"


def test_an_ending_that_nobody_knows_is_refused(labelled, tmp_path):
    with pytest.raises(ValueError, match="must end in one of"):
        export(labelled[0], tmp_path / "labels.xls")
