import numpy as np
import pytest
from label_projects import answer_truly, make_project, solve_now

from tg_crepe.label import Project, Session
from tg_crepe.label.choose import Chooser
from tg_crepe.label.memory import give_back
from tg_crepe.label.project import check_free
from tg_crepe.label.solve import Outdated, solve_book
from tg_crepe.label.worker import Worker


@pytest.fixture
def opened(tmp_path):
    project, truth = make_project(tmp_path)
    session = Session(project)
    session.add_classes("classes-of-the-test", ["a", "b", "c"])
    yield session, truth
    session.close()


def test_labels_are_those_of_tg_crepe_propagate_on_the_same_labels(opened, tmp_path):
    pytest.importorskip("typer", reason="the command needs the extra 'cli'")
    pytest.importorskip("pyarrow", reason="the command needs the extra 'cli'")
    import csv

    from tg_crepe.cli.app import run
    from tg_crepe.label.exports import export

    session, truth = opened
    answer_truly(session, truth, [0, 1, 2, 10, 20, 33, 44, 55])
    solve_now(session)
    export(session, tmp_path / "labels.csv", only_given=True)
    export(session, tmp_path / "all.csv")
    np.savez(tmp_path / "features.npz", x=session.project.x, ids=np.array(session.project.ids))
    line = ["propagate", "features.npz", "--labels", "labels.csv", "-k", "8", "--metric", "euclidean", "-o", "out.csv"]
    assert run([str(tmp_path / word) if "." in word else word for word in line]) == 0
    with (tmp_path / "out.csv").open() as one, (tmp_path / "all.csv").open() as other:
        theirs, ours = list(csv.DictReader(one)), list(csv.DictReader(other))
    assert [row["label"] for row in ours] == [row["label"] for row in theirs]
    for column in ("prob_a", "prob_b", "prob_c", "certainty"):
        np.testing.assert_allclose(
            [float(row[column]) for row in ours], [float(row[column]) for row in theirs], atol=1e-5
        )


def test_an_answer_keeps_what_the_model_said_before_it(opened):
    session, truth = opened
    answer_truly(session, truth, [0, 1, 2, 3, 4, 5])
    solve_now(session)
    guess = session.solved.guess(40)
    answer_truly(session, truth, [40])
    (kept,) = session.store.acts()[-1].answers
    assert (kept.guess, kept.prob, kept.labels) == (*guess, 6)
    assert [test.item for test in session.book.tests] == [40]


def test_a_session_goes_on_where_it_was(opened):
    session, truth = opened
    answer_truly(session, truth, [0, 1, 2, 3])
    session.undo("undo-of-the-last")
    before = session.book
    session.close()
    again = Session(Project.open(session.project.folder))
    assert again.book == before
    assert again.book.labels(90)[:4].tolist() == [1, 2, 3, -1]
    again.close()


def test_the_second_session_of_a_project_says_so(opened):
    session, _ = opened
    with pytest.raises(ValueError, match="is open already"):
        Session(Project.open(session.project.folder))


def test_a_solve_whose_labels_are_taken_back_is_ended_and_dropped(opened):
    session, truth = opened
    answer_truly(session, truth, [0, 1, 2, 3, 4, 5])
    book, wanted = session.to_solve()
    solved = solve_book(book, session.project.x, session.project.prepared)
    answer_truly(session, truth, [6])
    assert wanted(), "a new answer does not make an old solve useless"
    session.undo("take-the-last-back")
    assert not wanted()
    session.publish(solved, book, wanted)
    assert session.solved is None
    with pytest.raises(Outdated):
        solve_book(book, session.project.x, session.project.prepared, wanted)


def test_the_worker_gives_the_memory_of_a_solve_back(opened, monkeypatch):
    session, truth = opened
    answer_truly(session, truth, [0, 1, 2])
    given_back: list[int] = []
    monkeypatch.setattr("tg_crepe.label.worker.give_back", lambda: given_back.append(session.solved.labels))
    Worker(session)._solve(*session.to_solve())
    assert given_back == [3]
    give_back()  # any number of times, on any system


def test_two_tabs_are_asked_for_different_items(opened):
    session, _ = opened
    session.publish_queue([5, 6, 7, 8, 9], lambda: True)
    first, second = session.next_items("one", 2), session.next_items("two", 2)
    assert (first, second) == ([5, 6], [7, 8])
    assert session.next_items("one", 2) == [5, 6]


def test_skipped_items_come_again_at_the_end_and_doubtful_ones_never(opened):
    session, _ = opened
    session.publish_queue([5, 6], lambda: True)
    session.answer("skip-number-5", "one", [{"item": 5, "kind": "skip"}])
    session.answer("unsure-about-6", "one", [{"item": 6, "kind": "unsure"}])
    assert session.next_items("one", 9) == []  # the queue is empty, and 88 items have no answer
    chosen = Chooser(session.project.prepared, 90)(session.book, None, 90)
    assert sorted(chosen) == [item for item in range(90) if item not in (5, 6)]
    session.publish_queue(chosen[:1], lambda: True)
    rest = [{"item": item, "kind": "class", "class": 1} for item in chosen[1:]]
    session.answer("all-but-one-of-the-rest", "lasso", rest)
    assert session.next_items("one", 9) == chosen[:1]
    assert session.next_items("two", 9) == [5]  # another tab has the one that is left
    session.answer("the-last-of-the-rest", "one", [{"item": chosen[0], "kind": "class", "class": 1}])
    assert session.next_items("two", 9) == [5]


def test_the_first_questions_find_all_classes(opened):
    session, truth = opened
    chosen = Chooser(session.project.prepared, 90)(session.book, None, 3)
    assert sorted(truth[chosen]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"item": 90, "kind": "class", "class": 1}, "'item' must be a number below 90"),
        ({"item": True, "kind": "class", "class": 1}, "'item' must be"),
        ({"item": 1, "kind": "class", "class": 4}, "'class' must be the number of a class"),
        ({"item": 1, "kind": "class"}, "'class' must be"),
        ({"item": 1, "kind": "perhaps"}, "'kind' must be"),
    ],
)
def test_wrong_answers_are_refused_before_anything_is_written(opened, answer, message):
    session, _ = opened
    before = len(session.store.acts())
    with pytest.raises(ValueError, match=message):
        session.answer("wrong-answer", "one", [{"item": 0, "kind": "class", "class": 1}, answer])
    assert len(session.store.acts()) == before


def test_suspicious_labels_are_those_that_neighbours_outvote(opened):
    session, truth = opened
    answer_truly(session, truth, list(range(1, 40)))
    session.answer("a-slip-of-a-key", "one", [{"item": 0, "kind": "class", "class": 1 + (int(truth[0]) + 1) % 3}])
    solve_now(session)
    suspects = session.neighbours.outvoted(session.solved, 5)
    assert (suspects[0][0], suspects[0][1]) == (0, 1 + int(truth[0]))
    assert len(suspects) < 4


def test_none_of_these_is_a_class_of_its_own(opened):
    session, truth = opened
    answer_truly(session, truth, [1, 2, 4, 5])
    session.answer("belongs-to-none", "page", [{"item": i, "kind": "class", "class": 0} for i in (0, 3)])
    solve_now(session)
    assert (session.solved.label[truth == 0] == 0).mean() > 0.9


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty and no project"):
        check_free(tmp_path)


def test_a_project_that_is_not_whole_is_a_clear_error(tmp_path):
    project, _ = make_project(tmp_path)
    (project.folder / "graph.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"'graph.npz' is missing"):
        Project.open(project.folder)
    (project.folder / "project.json").write_text('{"program": "other"}')
    with pytest.raises(ValueError, match="was not written by tg-crepe label"):
        Project.open(project.folder)
