"""Inputs that people have: taken, or refused with what to do."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer import BadParameter

from tg_crepe.cli._inputs import read_features
from tg_crepe.cli._options import class_rule
from tg_crepe.cli.app import run

X = np.arange(12, dtype=np.float32).reshape(4, 3) / 4
IDS = ["007", "b", "ü", "d"]


@pytest.mark.parametrize("kind", ["list", "fixed"])
def test_parquet_with_a_column_of_lists(tmp_path, kind):
    kind = pa.list_(pa.float32()) if kind == "list" else pa.list_(pa.float32(), 3)
    table = pa.table({"id": IDS, "embedding": pa.array(X.tolist(), kind)})
    pq.write_table(table, tmp_path / "x.parquet")
    found = read_features(tmp_path / "x.parquet")
    np.testing.assert_array_equal(found.x, X)
    assert found.ids == IDS


def test_lists_of_several_lengths_and_other_columns_are_one_line(tmp_path):
    pq.write_table(pa.table({"e": [[1.0], [1.0, 2.0]]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="column 'e' must hold lists of numbers, all of one length"):
        read_features(tmp_path / "x.parquet")
    pq.write_table(pa.table({"e": [[1.0], [2.0]], "text": ["a", "b"]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="beside the lists of 'e' it must have the column id alone, got text"):
        read_features(tmp_path / "x.parquet")


def test_an_array_of_any_name_is_taken_where_there_is_one(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=X, ids=np.array(IDS))
    found = read_features(tmp_path / "x.npz")
    np.testing.assert_array_equal(found.x, X)
    assert found.ids == IDS
    np.savez(tmp_path / "x.npz", train=X, test=X)
    with pytest.raises(ValueError, match=r"it must hold the features as the array 'x' .*, got train, test"):
        read_features(tmp_path / "x.npz")


def test_ids_that_are_objects_are_refused_with_what_to_do(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, ids=np.array(IDS, dtype=object))
    with pytest.raises(ValueError, match=r"save names as text: ids=np.array\(ids\).astype\(str\)"):
        read_features(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "content",
    ["id;a;b\n007;0,5;1,5\nb;2,5;3\n", "id;a;b\n007;0.5;1.5\nb;2.5;3\n", "\ufeffid,a,b\n007,0.5,1.5\nb,2.5,3\n"],
)
def test_csv_of_spreadsheets_is_read(tmp_path, content):
    (tmp_path / "x.csv").write_text(content, encoding="utf-8")
    found = read_features(tmp_path / "x.csv")
    np.testing.assert_array_equal(found.x, np.array([[0.5, 1.5], [2.5, 3]], np.float32))
    assert found.ids == ["007", "b"]


@pytest.mark.parametrize("name", ["ID", "Id", " id ", '"ID"', "\ufeffID"])
def test_names_of_rows_are_no_feature_however_their_column_is_written(tmp_path, name):
    (tmp_path / "x.csv").write_text(f"{name},a,b\n007,1.0,2.0\n8,3.0,4.0\n", encoding="utf-8")
    found = read_features(tmp_path / "x.csv")
    assert found.ids == ["007", "8"]
    np.testing.assert_array_equal(found.x, [[1, 2], [3, 4]])


def test_names_of_rows_are_no_feature_in_parquet_either(tmp_path):
    pq.write_table(pa.table({"ID": [7, 8], "a": [1.0, 2.0]}), tmp_path / "x.parquet")
    found = read_features(tmp_path / "x.parquet")
    assert found.ids == ["7", "8"]
    np.testing.assert_array_equal(found.x, [[1], [2]])


def test_of_two_columns_that_could_name_the_rows_only_id_does(tmp_path):
    (tmp_path / "x.csv").write_text("ID,id,a\n1,x,1.0\n2,y,3.0\n")
    found = read_features(tmp_path / "x.csv")
    assert found.ids == ["x", "y"]
    np.testing.assert_array_equal(found.x, [[1, 1], [2, 3]])
    (tmp_path / "x.csv").write_text("ID,Id,a\n1,5,1.0\n2,6,3.0\n")
    with pytest.raises(ValueError, match="'ID', 'Id' could all be the names of its rows: call one of them id"):
        read_features(tmp_path / "x.csv")


def test_a_csv_of_another_encoding_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "x.csv").write_bytes("id,a\nü,1\nb,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match="save it as UTF-8"):
        read_features(tmp_path / "x.csv")


def test_the_weights_of_torchvisions_resnet18_are_taken(tmp_path):
    torchvision = pytest.importorskip("torchvision")
    from tg_crepe.cli._inputs import _load_network

    network = torchvision.models.resnet18(weights=None).eval()
    torch.save(network.state_dict(), tmp_path / "resnet18.pth")
    ours = _load_network("resnet18", tmp_path / "resnet18.pth", 3, 224).eval()
    image = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(image), network(image))


def test_classes_are_compared_as_the_labels_of_a_table_are():
    assert class_rule("caf\u0065\u0301,a  b,dog", False).classes == ["caf\u00e9", "a b", "dog"]
    with pytest.raises(BadParameter, match="each once"):
        class_rule("a b,a  b", False)


def relabel(table, changes):
    lines = (table / "labels.csv").read_text().splitlines()
    for old, new in changes.items():
        place = next(i for i, line in enumerate(lines) if line.endswith(old))
        lines[place] = lines[place].replace(old, new)
    (table / "labels.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("slip", ["gren", "Green", "grene"])
def test_a_typo_is_no_class_unless_one_insists(table, monkeypatch, capsys, slip):
    monkeypatch.chdir(table)
    relabel(table, {",green": f",{slip}"})
    line = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "p.csv"]
    assert run(line) == 2
    error = capsys.readouterr().err
    assert f"the class '{slip}' (1 label(s)) looks like 'green' (1)" in error or f"looks like '{slip}'" in error
    assert "--allow-new-class" in error
    assert not (table / "p.csv").exists()
    assert run([*line, "--allow-new-class"]) == 0
    assert slip in capsys.readouterr().out


def test_the_classes_can_be_fixed(table, monkeypatch, capsys):
    monkeypatch.chdir(table)
    line = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "p.csv"]
    assert run([*line, "--classes", "red,green"]) == 2
    assert "the class 'blue' is none of red, green" in capsys.readouterr().err
    assert run([*line, "--classes", "red"]) == 2
    assert "two classes or more" in capsys.readouterr().err
    assert run([*line, "--classes", "red, green, blue, violet"]) == 0
    assert "never predicted" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["label-next", "report"])
def test_the_rule_for_names_holds_in_every_command(table, monkeypatch, capsys, command):
    monkeypatch.chdir(table)
    relabel(table, {",green": ",Green"})
    line = [command, "features.npz", "--labels", "labels.csv", "-o", "o.html" if command == "report" else "o.csv"]
    assert run(line) == 2
    assert "looks like" in capsys.readouterr().err
    assert run([*line, "--classes", "red,green,blue"]) == 2
    assert "the class 'Green' is none of red, green, blue; did you mean 'green'?" in capsys.readouterr().err
    assert run([*line, "--allow-new-class"]) == 0


def test_train_takes_no_slip_for_a_class(tmp_path, monkeypatch, capsys):
    pytest.importorskip("accelerate")
    from embed_inputs import write_images

    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "images", 12, 8)
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    rows = [f"{name},{('horse', 'cat', 'hosre')[i]}" for i, name in enumerate(names[:3])]
    (tmp_path / "labels.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    line = ["train", "images", "--labels", "labels.csv", "--size", "8", "--epochs", "1", "--run", "run"]
    assert run(line) == 2
    assert "looks like" in capsys.readouterr().err
    assert run([*line, "--classes", "horse,cat"]) == 2
    assert "the class 'hosre' is none of horse, cat; did you mean 'horse'?" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert run([*line, "--allow-new-class", "--energy", "none"]) == 0


def test_fewer_labels_than_the_run_knew_is_one_warning(table, monkeypatch, capsys):
    monkeypatch.chdir(table)
    line = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "p.csv", "--run", "run", "--force"]
    assert run(line) == 0
    assert run(line) == 0
    assert "where the run" not in capsys.readouterr().err
    rows = [row for row in (table / "labels.csv").read_text().splitlines() if not row.endswith(",blue")]
    (table / "labels.csv").write_text("\n".join(rows) + "\n")
    assert run(line) == 0
    said = capsys.readouterr().err
    assert said.count("warning:") == 1
    assert "these tables hold 4 labels where the run in 'run' knew 6, and not the class(es) blue" in said
    (table / "run" / "result.npz").write_bytes(b"damaged")
    assert run(line) == 0  # it is replaced, whatever is wrong with it
