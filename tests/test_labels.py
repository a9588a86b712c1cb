"""Labels as people write them."""

import numpy as np
import pytest

from tg_crepe._labels import check_known, find_slip, is_unlabelled, read_label_table, read_label_tables
from tg_crepe.warnings import GraphWarning


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), "", "  ", "nan", "<NA>"]
)
def test_missing_values_of_every_kind_are_unlabelled(value):
    assert is_unlabelled(value)


def test_missing_values_of_pandas_are_unlabelled():
    pandas = pytest.importorskip("pandas")
    assert is_unlabelled(pandas.NA)
    assert is_unlabelled(pandas.NaT)


@pytest.mark.parametrize("value", [-1, np.int64(-1), -1.0, "-1", " -1 "])
def test_the_marker_is_unlabelled_as_a_number_and_as_text(value):
    assert is_unlabelled(value, -1)
    assert not is_unlabelled(value)


@pytest.mark.parametrize("value", [0, 1, "0", "None", "NA", "none", "cat", False, np.str_("dog")])
def test_labels_are_labels(value):
    assert not is_unlabelled(value, -1)


SLIPS = [
    ({"horse": 5, "hosre": 1, "cat": 5}, ("hosre", "horse")),
    ({"horse": 5, "Horse": 4}, ("Horse", "horse")),
    ({"horse": 5, "hors": 1}, ("hors", "horse")),
    ({"horse": 5, "horrse": 1}, ("horrse", "horse")),
    ({"horse": 5, "house": 1}, ("house", "horse")),
    ({"Straße": 9, "Strasse": 1}, ("Strasse", "Straße")),
    ({"automobile": 10, "automobil": 2}, ("automobil", "automobile")),
]


@pytest.mark.parametrize(("names", "slip"), SLIPS)
def test_slips_are_found(names, slip):
    assert find_slip(names) == slip


@pytest.mark.parametrize(
    "names",
    [
        {"cat": 5, "car": 1, "bat": 1},
        {"class1": 5, "class2": 1},
        {"10": 5, "11": 1, "1000": 3, "1001": 1},
        {"grade A": 9, "grade B": 1},
        {"wine": 5, "pine": 5},
        {str(i): 1 for i in range(100)},
        {"benign": 4, "malignant": 4},
        {"male": 9, "female": 1},
    ],
)
def test_names_that_are_alike_on_purpose_are_left_alone(names):
    assert find_slip(names) is None


def test_many_classes_are_compared_quickly():
    names = {f"species number {i} of {i * 7919 % 10007}": 2 for i in range(2000)}
    assert find_slip(names) is None


def test_a_name_that_is_none_of_the_classes_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="the class 'hosre' is none of cat, horse; did you mean 'horse'"):
        check_known("t.csv", ["cat", "hosre"], ["cat", "horse"])


def write(tmp_path, content, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(content.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("id,label\na,red\nb,\n", "utf-8"),
        ("id,label\na,red\nb,\n", "utf-8-sig"),
        ("id,label\na,red\nb,\n", "utf-16"),
        ("id;label\na;red\nb;\n", "utf-8"),
        ("id\tlabel\na\tred\nb\t\n", "utf-8"),
        ('"id","label"\r\n"a","red"\r\n"b",""\r\n', "utf-8"),
        ("label,note,id\nred,x,a\n,y,b\n\n", "utf-8"),
    ],
)
def test_tables_of_spreadsheets_are_read(tmp_path, content, encoding):
    assert read_label_table(write(tmp_path, content, encoding)).label_of == {"a": "red"}


def test_latin_1_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"not UTF-8 text .*save it as UTF-8 \(in a spreadsheet: CSV UTF-8\)"):
        read_label_table(write(tmp_path, "id,label\na,grün\n", "latin-1"))


def test_spaces_are_left_out_and_said(tmp_path):
    with pytest.warns(GraphWarning, match=r"spaces around 2 cell\(s\) are left out, the first is ' a'"):
        table = read_label_table(write(tmp_path, "id,label\n a,red\nb,red \n"))
    assert table.label_of == {"a": "red", "b": "red"}


def test_the_marker_beside_numbers_is_unlabelled_and_said(tmp_path):
    with pytest.warns(GraphWarning, match="'-1' is taken for unlabelled"):
        table = read_label_table(write(tmp_path, "id,label\na,0\nb,1\nc,-1\n"))
    assert table.label_of == {"a": "0", "b": "1"}
    assert read_label_table(write(tmp_path, "id,label\na,1\nb,-1\n")).label_of == {"a": "1", "b": "-1"}


def test_a_table_without_a_label_beside_others_is_said(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\na,red\nb,blue\n")
    (tmp_path / "b.csv").write_text("id,label,guess\nc,,red\n")
    with pytest.warns(GraphWarning, match=r"b\.csv': no row has a label; fill in the column label") as told:
        table = read_label_tables([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert len(told) == 1
    assert table.label_of == {"a": "red", "b": "blue"}


def test_labels_for_other_ids_show_what_ids_look_like(tmp_path):
    with pytest.raises(
        ValueError, match=r"1 of its ids are not among the features, the first is '1' \(ids look like 'img"
    ):
        read_label_table(write(tmp_path, "id,label\n1,red\n"), {"img_1.png"})


def test_a_marker_is_one_in_all_tables_that_are_taken_together(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\na,0\nb,1\nc,-1\nd,2\n")
    (tmp_path / "b.csv").write_text("id,label\ne,1\nf,-1\n")
    for names in ("ab", "ba"):
        with pytest.warns(GraphWarning, match="'-1' is taken for unlabelled"):
            table = read_label_tables([tmp_path / f"{name}.csv" for name in names])
        assert table.label_of == {"a": "0", "b": "1", "d": "2", "e": "1"}


def test_minus_one_beside_one_alone_is_a_class_in_several_tables_too(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\na,1\nb,-1\n")
    (tmp_path / "b.csv").write_text("id,label\nc,1\nd,-1\n")
    table = read_label_tables([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert table.label_of == {"a": "1", "b": "-1", "c": "1", "d": "-1"}
