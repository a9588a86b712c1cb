import contextlib
import socket

import numpy as np
import pytest
from label_projects import answer_truly, clouds, make_project, write_images

pytest.importorskip("typer", reason="the command needs the extra 'cli'")
pytest.importorskip("starlette", reason="the page needs the extra 'label'")
pytest.importorskip("uvicorn", reason="the page needs the extra 'label'")
pytest.importorskip("PIL", reason="images need the extra 'label'")

from tg_crepe.cli.app import run
from tg_crepe.label import Project, Session
from tg_crepe.label.serve import _listen


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with features, images and some labels."""
    monkeypatch.chdir(tmp_path)
    x, truth = clouds()
    ids = write_images(tmp_path / "images", truth)
    np.savez("features.npz", x=x, ids=np.array(ids))
    rows = "".join(f"{name},{'abc'[number]}\n" for name, number in zip(ids[:9], truth[:9], strict=True))
    (tmp_path / "labels.csv").write_text("id,label\n" + rows)
    return tmp_path


def test_labels_go_in_and_all_of_them_come_out_without_a_page(here, capsys):
    line = ["label", "features.npz", "--show", "images", "--labels", "labels.csv", "--export", "all.csv"]
    assert run(line) == 0
    assert "9 labels from labels.csv" in capsys.readouterr().out
    assert len((here / "all.csv").read_text().splitlines()) == 91
    assert Project.is_one(here / "features-labels")
    assert run(["label", "features-labels", "--export", "again.csv"]) == 0
    assert (here / "again.csv").read_text() == (here / "all.csv").read_text()


def test_a_column_of_the_features_is_shown(here):
    x, truth = clouds()
    names = ",".join(f"x{number}" for number in range(x.shape[1]))
    rows = [f"r{i},{','.join(map(str, row))},text {i} of {truth[i]}\n" for i, row in enumerate(x)]
    (here / "table.csv").write_text(f"id,{names},title\n" + "".join(rows))
    line = "label table.csv --show table.csv --text title --project p --classes a,b --export x.csv"
    assert run(line.split()) == 0
    project = Project.open(here / "p")
    assert np.allclose(project.x, x)
    assert project.open_items().text(4) == f"text 4 of {truth[4]}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("label nowhere.npz", "the file of features 'nowhere.npz' is missing"),
        ("label features.npz --show nowhere", "the source 'nowhere' is missing"),
        ("label features.npz --show labels.csv --text id --classes a,,b --export x.csv", "a name is blank"),
        ("label features.npz --classes a,A --export x.csv", "is called 'A' already"),
        ("label features.npz --labels nowhere.csv --export x.csv", "the file of labels 'nowhere.csv' is missing"),
        ("label labels.csv --show labels.csv --export x.csv", "needs its name"),
        ("label features.npz --export x.xls", "must end in"),
        ("label features.npz --project images", "is not empty and no project"),
        ("label features.npz -k 0", "Invalid value for '-k'"),
        ("label features.npz --port 99999", "Invalid value for '--port'"),
    ],
)
def test_wrong_lines_are_one_line_of_help(here, capsys, line, message):
    assert run(line.split()) == 2
    said = capsys.readouterr().err
    assert message in " ".join(said.split())
    assert "Traceback" not in said


def test_the_project_of_another_source_is_not_used(here, capsys):
    assert run(["label", "features.npz", "--project", "p", "--export", "x.csv"]) == 0
    np.savez("other.npz", x=clouds()[0])
    assert run(["label", "other.npz", "--project", "p", "--export", "y.csv"]) == 2
    assert "is the project of" in capsys.readouterr().err


def test_a_project_that_is_open_elsewhere_is_said_to_be(tmp_path, capsys):
    project, _ = make_project(tmp_path)
    session = Session(project)
    assert run(["label", str(project.folder), "--no-browser"]) == 2
    assert "is open already, in the process" in " ".join(capsys.readouterr().err.split())
    session.close()


def test_the_server_listens_on_this_machine_alone():
    listener = _listen(None)
    assert listener.getsockname()[0] == "127.0.0.1"
    port = listener.getsockname()[1]
    with pytest.raises(ValueError, match=f"'--port' must be a free port of this machine, got {port}"):
        _listen(port)
    listener.close()


def test_pages_that_start_together_get_ports_of_their_own():
    """A port that is bound and not yet listened on can be bound once more: each must listen before it is said free."""
    with socket.socket() as early:
        early.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        early.bind(("127.0.0.1", 0))
        port = early.getsockname()[1]
        with _listen(port):  # the first to listen has it, and who comes later finds it taken
            with pytest.raises(ValueError, match="must be a free port"):
                _listen(port)
            with pytest.raises(OSError, match="in use"):
                early.listen()
    with contextlib.ExitStack() as stack:
        together = [stack.enter_context(_listen(None)) for _ in range(3)]
        assert len({listener.getsockname()[1] for listener in together}) == 3


def labelled_project(tmp_path):
    project, truth = make_project(tmp_path, images=True)
    session = Session(project)
    session.add_classes("classes-of-the-test", ["a", "b", "c"])
    answer_truly(session, truth, [0, 1, 2, 3, 4, 5])
    session.close()
    return project, truth


def test_a_project_is_a_folder_of_images_to_train_on(tmp_path):
    from tg_crepe.cli.train import _load

    project, truth = labelled_project(tmp_path)
    dataset = _load(str(project.folder), None, None, 8)
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.targets[:7].tolist() == [*truth[:6].tolist(), -1]
    rows, _ = make_project(tmp_path / "rows")
    with pytest.raises(ValueError, match="must be a project of a folder of images"):
        _load(str(rows.folder), None, None, 8)


def test_a_project_with_the_name_of_a_data_set_is_not_taken_for_it(tmp_path, monkeypatch, capsys):
    project, _ = labelled_project(tmp_path)
    project.folder.rename(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert run(["train", "digits", "--run", "r"]) == 2
    assert "'digits' must be ./digits for the project of tg-crepe label here" in capsys.readouterr().err
    line = ["train", "./digits", "--size", "8", "--epochs", "1", "--run", "r"]
    assert run(line) == 0


def test_a_project_is_a_run_for_the_report(tmp_path):
    pytest.importorskip("jinja2", reason="the report needs the extra 'report'")
    pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")
    project, _ = labelled_project(tmp_path)
    assert run(["report", str(project.folder), "-o", str(tmp_path / "report.html")]) == 0
    assert "of the pseudo-labels are probably wrong" in (tmp_path / "report.html").read_text()
