from __future__ import annotations

import json

import numpy as np
import pytest

from tg_crepe.embed import Embedding, read_embedding
from tg_crepe.embed.file import read_note, write_embedding

X = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = ("a", "b", "ü", "d,e")


def test_a_file_holds_what_was_saved(tmp_path):
    Embedding(X, IDS, {"model": "m"}).save(tmp_path / "a.npz")
    found = read_embedding(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.x, X)
    assert found.ids == IDS
    assert found.made["model"] == "m"
    assert repr(found) == "Embedding(4 rows of 3 features, m)"


def test_bytes_do_not_depend_on_the_parts(tmp_path):
    write_embedding(tmp_path / "a.npz", [X], IDS, X.shape, {})
    write_embedding(tmp_path / "b.npz", [X[:1], X[1:3], X[3:]], IDS, X.shape, {})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_numpy_reads_the_file(tmp_path):
    Embedding(X, IDS).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert sorted(file.files) == ["ids", "made", "x"]
        np.testing.assert_array_equal(file["x"], X)


def test_changed_features_are_noticed(tmp_path):
    Embedding(X, IDS).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "a.npz", **{**arrays, "x": X + 1})
    with pytest.raises(ValueError, match="checksum differs"):
        read_embedding(tmp_path / "a.npz")


def test_what_is_no_embedding_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=X)
    assert read_note(tmp_path / "a.npz") is None
    with pytest.raises(ValueError, match=r"must hold the array\(s\) ids, made"):
        read_embedding(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=X, ids=np.array(IDS), made=np.array('{"format": 99}'))
    with pytest.raises(ValueError, match="of format 1"):
        read_embedding(tmp_path / "b.npz")
    with pytest.raises(FileNotFoundError, match="is missing"):
        read_embedding(tmp_path / "c.npz")
    (tmp_path / "d.npz").write_bytes(b"half")
    assert read_note(tmp_path / "d.npz") is None


def test_nothing_is_left_of_a_file_that_could_not_be_finished(tmp_path):
    def parts():
        yield X[:2]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_embedding(tmp_path / "a.npz", parts(), IDS, X.shape, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "made",
    [
        {"format": 1, "model": 3},
        {"format": 1, "skipped": []},
        {"format": 1, "source": "x"},
        {"format": 1, "truncated": None},
        [1],
    ],
)
def test_a_note_that_somebody_changed_is_refused(tmp_path, made):
    np.savez(tmp_path / "a.npz", x=X, ids=np.array(IDS), made=np.array(json.dumps(made)))
    assert read_note(tmp_path / "a.npz") is None
    with pytest.raises(ValueError, match=r"a\.npz' cannot be used"):
        read_embedding(tmp_path / "a.npz")


@pytest.mark.parametrize("x", [X[0], X.astype(np.float64), X[:2], X[:, :0]])
def test_rows_that_do_not_fit_are_refused(tmp_path, x):
    np.savez(tmp_path / "a.npz", x=x, ids=np.array(IDS), made=np.array('{"format": 1}'))
    with pytest.raises(ValueError, match="a row for each of the ids"):
        read_embedding(tmp_path / "a.npz")
