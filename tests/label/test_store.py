import multiprocessing
import os
import signal
import sqlite3
import time

import pytest
from label_projects import write_until_killed

from tg_crepe.label.book import NONE, Book
from tg_crepe.label.store import ActStore, Answer, ProgressPoint


@pytest.fixture
def store(tmp_path):
    store = ActStore(tmp_path / "labels.sqlite")
    yield store
    store.close()


def labelled(item, number, guess=None):
    return Answer(item, "class", number, guess, None if guess is None else 0.8, None if guess is None else 5)


def test_acts_come_back_as_they_were_written(store, tmp_path):
    store.record("request-1", "add", {"classes": [[1, "<script>"], [2, "Füchse"]]})
    store.record("request-2", "page", {}, [labelled(3, 1, 2), Answer(4, "skip")])
    store.note_progress(ProgressPoint(2, 1, 0.5, 0.1, 0.0, 0.2))
    store.close()
    again = ActStore(tmp_path / "labels.sqlite")
    first, second = again.acts()
    assert first.detail == {"classes": [[1, "<script>"], [2, "Füchse"]]}
    assert second.answers == (labelled(3, 1, 2), Answer(4, "skip"))
    assert again.progress() == [ProgressPoint(2, 1, 0.5, 0.1, 0.0, 0.2)]
    again.close()


def test_a_request_that_is_sent_twice_is_written_once(store):
    first, new = store.record("request-1", "one", {}, [labelled(3, 1)])
    again, new_again = store.record("request-1", "one", {}, [labelled(3, 2)])
    assert (new, new_again) == (True, False)
    assert again.answers == first.answers
    assert len(store.acts()) == 1


def test_a_file_of_something_else_is_a_clear_error(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with pytest.raises(ValueError, match=r"labels.sqlite' cannot be used: it is not a whole database"):
        ActStore(path)
    newer = sqlite3.connect(tmp_path / "newer.sqlite")
    newer.execute("PRAGMA user_version=99")
    newer.close()
    with pytest.raises(ValueError, match="its format is 99, this version reads 1"):
        ActStore(tmp_path / "newer.sqlite")


def book_of(store):
    return Book.read(store.acts())


def undo(store):
    store.record(f"undo-{time.monotonic_ns()}", "undo", {"act": book_of(store).undoable[-1]})


def test_undo_takes_back_any_number_of_acts_in_order(store):
    store.record("classes", "add", {"classes": [[1, "a"], [2, "b"]]})
    store.record("answer-1", "one", {}, [labelled(0, 1)])
    store.record("answer-2", "page", {}, [labelled(1, 2), labelled(2, 2)])
    store.record("merge", "merge", {"class": 2, "into": 1})
    assert book_of(store).labels(4).tolist() == [1, 1, 1, -1]
    undo(store)
    assert book_of(store).labels(4).tolist() == [1, 2, 2, -1]
    undo(store)
    assert book_of(store).labels(4).tolist() == [1, -1, -1, -1]
    store.record("answer-3", "one", {}, [labelled(3, 2)])
    undo(store)
    undo(store)
    undo(store)
    book = book_of(store)
    assert (book.classes, book.answers, book.undoable) == ({}, {}, [])
    assert book.next_class == 3, "numbers of classes are never used again"


def test_a_deleted_class_takes_its_labels_along_and_a_merged_one_gives_them(store):
    store.record("classes", "add", {"classes": [[1, "a"], [2, "b"], [3, "c"]]})
    store.record("answers", "page", {}, [labelled(0, 1, 2), labelled(1, 2, 2), labelled(2, 3, 1), labelled(3, NONE, 1)])
    store.record("merge", "merge", {"class": 2, "into": 1})
    book = book_of(store)
    assert book.labels(4).tolist() == [1, 1, 3, NONE]
    assert [(test.class_id, test.guess) for test in book.tests] == [(1, 1), (1, 1), (3, 1), (NONE, 1)]
    store.record("delete", "delete", {"class": 3})
    book = book_of(store)
    assert book.labels(4).tolist() == [1, 1, -1, NONE]
    assert len(book.tests) == 3


def test_only_the_first_label_of_an_item_is_a_test(store):
    store.record("classes", "add", {"classes": [[1, "a"], [2, "b"]]})
    store.record("skip", "one", {}, [Answer(0, "skip", None, 1, 0.7, 4)])
    store.record("first", "one", {}, [labelled(0, 1, 2)])
    store.record("second", "review", {}, [labelled(0, 2, 2)])
    book = book_of(store)
    assert [(test.class_id, test.guess) for test in book.tests] == [(1, 2)]
    assert book.labels(1).tolist() == [2]


def test_the_log_read_at_once_and_act_by_act_is_the_same(store):
    book = Book()
    for act in (
        store.record("classes", "add", {"classes": [[1, "a"], [2, "b"]]})[0],
        store.record("answers", "page", {}, [labelled(0, 1, 2), labelled(1, 2, 2)])[0],
        store.record("rename", "rename", {"class": 2, "name": "c"})[0],
        store.record("clear", "review", {}, [Answer(1, "clear")])[0],
    ):
        book.write(act)
    assert book == book_of(store)


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "two\nlines\x00", None, 7, "A", "None of these"])
def test_names_that_no_class_may_have_are_refused(store, name):
    store.record("classes", "add", {"classes": [[1, "a"]]})
    with pytest.raises(ValueError, match=r"'name' must|is called"):
        book_of(store).check_name(name)


def test_every_answer_that_was_called_saved_outlives_a_kill(tmp_path):
    path = tmp_path / "labels.sqlite"
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=write_until_killed, args=(path, there))
    process.start()
    there.close()  # else a child that died would be waited for
    saved = [here.recv() for _ in range(40)]
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while here.poll():
        try:
            saved.append(here.recv())
        except EOFError:
            break
    store = ActStore(path)
    items = [answer.item for act in store.acts() for answer in act.answers]
    store.close()
    assert set(saved) <= set(items)
    assert len(items) == len(set(items))
