from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

import pyarrow

from tg_crepe.embed import open_source


def table(folder: Path, text: str) -> Path:
    path = folder / "a.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_texts_and_names_are_those_of_the_table(tmp_path):
    source = open_source(table(tmp_path, 'id,text,label\n007,"one, two",x\n8,"three\nfour",\n'))
    assert source.ids == ["007", "8"]
    assert [source.read(0), source.read(1)] == ["one, two", "three\nfour"]
    assert source.kind == "texts"


@pytest.mark.parametrize("name", ["ID", " id", "Id"])
def test_names_are_found_however_their_column_is_written(tmp_path, name):
    source = open_source(table(tmp_path, f"{name},question\n007,one\n8,two\n"))
    assert source.ids == ["007", "8"]
    assert source.column == "question"


@pytest.mark.parametrize("header", ["text", "question"])
def test_the_column_of_texts_is_found(tmp_path, header):
    source = open_source(table(tmp_path, f"id,number,{header}\na,1,some words\nb,2,others\n"))
    assert source.column == header


def test_a_column_that_is_not_clear_has_to_be_named(tmp_path):
    path = table(tmp_path, "id,title,body\na,one,two\n")
    with pytest.raises(ValueError, match=r"--text must name one of id, title, body"):
        open_source(path)
    assert open_source(path, column="body").read(0) == "two"
    with pytest.raises(ValueError, match="has no column 'no'"):
        open_source(path, column="no")


def test_parquet_tables_are_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": ["one", "two"]}), tmp_path / "a.parquet")
    assert open_source(tmp_path / "a.parquet").ids == ["0", "1"]


def test_images_in_parquet_are_read_as_hugging_face_writes_them(tmp_path):
    image_module = pytest.importorskip("PIL.Image", reason="images need the extra 'vision'")
    parquet = pytest.importorskip("pyarrow.parquet")
    image_module.new("RGB", (5, 4), (1, 2, 3)).save(tmp_path / "a.png")
    cells = [{"bytes": (tmp_path / "a.png").read_bytes(), "path": "a.png"}]
    table = pyarrow.table({"image": cells, "label": [3], "title": ["a"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet")
    assert (source.kind, source.column, source.read(0).size) == ("images", "image", (5, 4))
    assert open_source(tmp_path / "a.parquet", column="title").kind == "texts"


def test_long_texts_are_read_whole(tmp_path):
    words = "word " * 400_000
    assert open_source(table(tmp_path, f"id,text\na,{words}\nb,short\n")).read(0) == words


def test_a_blank_text_is_a_bad_item(tmp_path):
    source = open_source(table(tmp_path, "id,text\na,one\nb,\nc,   \n"))
    for place in (1, 2):
        with pytest.raises(ValueError, match=r"the text of '[bc]' in .* is blank"):
            source.read(place)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\na,one\na,two\n", "the id 'a' stands there twice"),
        ("id,text\na,one\n,two\n", "1 row\\(s\\) have no id"),
        ("text,text\none,two\n", "same name"),
        ("id;text\n1;one\n", "must be separated by commas, got ';'"),
        ("id\ttext\n1\tone\n", "must be separated by commas"),
        ('id,text\n1,"never closed\n2,two\n', "not a whole csv file"),
        ("id,text\na,one,two\n", "not a whole csv file"),
        ("", "cannot be used"),
    ],
)
def test_a_damaged_table_is_one_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        open_source(table(tmp_path, content))


def test_a_change_of_one_text_changes_the_fingerprint(tmp_path):
    first = open_source(table(tmp_path, "id,text\na,one\nb,two\n")).fingerprint()
    assert open_source(table(tmp_path, "id,text\na,one\nb,twos\n")).fingerprint() != first
    assert open_source(table(tmp_path, "id,text,label\na,one,x\nb,two,y\n")).fingerprint() == first
