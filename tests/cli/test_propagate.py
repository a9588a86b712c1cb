from __future__ import annotations

import csv
import json
import warnings
from html import unescape

import numpy as np
import pytest
import torch
from cli_inputs import cluster_points

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

import pyarrow
import pyarrow.parquet

from tg_crepe import ConvergenceWarning, CrepePropagation, GraphWarning, knn_graph
from tg_crepe.cli.app import run
from tg_crepe.runs import RunFolder

CLASSES = ["red", "green", "blue"]
SORTED = sorted(CLASSES)


def propagate(folder, *more: str, features: str = "features.npz", out: str = "out.csv") -> int:
    arguments = [str(folder / features), "--labels", str(folder / "labels.csv"), "-o", str(folder / out), "-k", "8"]
    return run(["propagate", *arguments, *more])


def read_csv(path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_for_every_id_in_the_order_of_the_input(table, capsys):
    assert propagate(table) == 0
    rows = read_csv(table / "out.csv")
    _, y, ids = cluster_points()
    assert [row["id"] for row in rows] == ids
    assert list(rows[0]) == ["id", "label", *(f"prob_{name}" for name in SORTED), "certainty", "reached"]
    assert [row["label"] for row in rows] == [CLASSES[c] for c in y]
    assert {row["reached"] for row in rows} == {"true"}
    captured = capsys.readouterr()
    assert captured.out.startswith("60 rows, 6 of them labelled, 0 out of reach; status converged")
    assert captured.err == ""


def test_the_numbers_are_those_of_the_library(table):
    assert propagate(table, "--metric", "euclidean", "--model", "crepe", "--no-head") == 0
    x, y, _ = cluster_points()
    number = torch.tensor([SORTED.index(CLASSES[c]) for c in y])
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), 8, "euclidean")
    result = CrepePropagation().propagate(number, edge_index, torch.arange(60) < 6, edge_weight)
    rows = read_csv(table / "out.csv")
    found = np.array([[float(row[f"prob_{name}"]) for name in SORTED] for row in rows], np.float32)
    np.testing.assert_array_equal(found, result.prob.numpy())
    np.testing.assert_array_equal(np.array([row["certainty"] for row in rows], np.float32), result.certainty.numpy())


@pytest.mark.parametrize("kind", ["clouds", "table", "directions"])
def test_the_labels_are_those_of_the_estimator_by_default(kind, tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the estimators need the extra 'sklearn'")
    from tg_crepe.sklearn import CrepeClassifier

    rng, y = np.random.default_rng(0), np.arange(300) % 3
    x = np.array([[0, 0, 0], [3, 0, 0], [0, 3, 0]])[y] + rng.normal(size=(300, 3))
    if kind == "table":
        x = x * [1, 1000, 0.01]
    elif kind == "directions":
        x = rng.normal(size=(3, 40))[y] + 1.5 * rng.normal(size=(300, 40))
        x = x * rng.lognormal(sigma=0.3, size=(300, 1))
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    labels = "".join(f"{i},{y[i]}\n" for i in range(12))
    (tmp_path / "labels.csv").write_text(f"id,label\n{labels}")
    line = [str(tmp_path / "x.npy"), "--labels", str(tmp_path / "labels.csv"), "-o", str(tmp_path / "out.csv")]
    assert run(["propagate", *line, "--run", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().err
    assert told.count("\n") == told.count("warning: columns of 'x' are of very different scale") == (kind == "table")
    chosen = {"clouds": "euclidean", "table": "euclidean, standardised columns", "directions": "cosine"}[kind]
    assert RunFolder.open(tmp_path / "run").info["settings"]["metric"] == chosen
    assert RunFolder.open(tmp_path / "run").info["settings"]["neighbours"] == "all found"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        model = CrepeClassifier().fit(x.astype(np.float32), np.where(np.arange(300) < 12, y, -1))
    rows = read_csv(tmp_path / "out.csv")
    assert [row["label"] for row in rows] == [str(label) for label in model.transduction_]
    found = np.array([[float(row[f"prob_{c}"]) for c in range(3)] for row in rows])
    np.testing.assert_allclose(found, model.label_distributions_, atol=1e-6)


def write_features(folder, ending: str, ids: bool) -> None:
    x, _, names = cluster_points()
    path = folder / f"x{ending}"
    columns = {**({"id": names} if ids else {}), **{f"f{i}": x[:, i] for i in range(4)}}
    if ending == ".npy":
        np.save(path, x)
    elif ending == ".npz":
        np.savez(path, x=x, **({"ids": np.array(names)} if ids else {}))
    elif ending == ".pt":
        torch.save({"x": torch.from_numpy(x), "ids": names} if ids else torch.from_numpy(x), path)
    elif ending == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(
                zip(*(c if c is names else c.astype(float).tolist() for c in columns.values()), strict=True)
            )
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    if not ids:
        numbers = {name: str(place) for place, name in enumerate(names)}
        lines = (folder / "labels.csv").read_text().splitlines()
        renamed = [f"{numbers[line.partition(',')[0]]},{line.partition(',')[2]}" for line in lines[1:]]
        (folder / "labels.csv").write_text("\n".join([lines[0], *renamed]) + "\n")


@pytest.mark.parametrize(
    ("ending", "ids"),
    [
        *((ending, False) for ending in (".npy", ".npz", ".pt", ".csv", ".parquet")),
        *((ending, True) for ending in (".pt", ".csv", ".parquet")),
    ],
)
def test_every_format_gives_the_same_table(ending, ids, table):
    assert propagate(table, out="reference.csv") == 0
    write_features(table, ending, ids)
    for out in ("out.csv", "out.parquet"):
        assert propagate(table, features=f"x{ending}", out=out) == 0
    reference, rows = read_csv(table / "reference.csv"), read_csv(table / "out.csv")
    names = [row["id"] for row in reference] if ids else list(map(str, range(60)))
    assert [row["id"] for row in rows] == names
    strip = [{key: value for key, value in row.items() if key != "id"} for row in rows]
    assert strip == [{key: value for key, value in row.items() if key != "id"} for row in reference]
    parquet = pyarrow.parquet.read_table(table / "out.parquet").to_pydict()
    assert parquet["id"] == names
    assert parquet["label"] == [row["label"] for row in rows]
    np.testing.assert_array_equal(parquet["certainty"], np.array([row["certainty"] for row in rows], np.float32))


def test_json_is_the_only_thing_on_stdout(table, capsys):
    assert propagate(table, "--json", "--run", str(table / "run")) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["nodes"], summary["labelled"], summary["unreached"]) == (60, 6, 0)
    assert summary["classes"] == {"blue": 20, "green": 20, "red": 20}
    assert summary["status"] == "converged"
    assert 0 < summary["mean_certainty"] <= 1


def test_the_run_holds_everything(table):
    assert propagate(table, "--run", str(table / "run")) == 0
    folder = RunFolder.open(table / "run")
    assert (folder.info["command"], folder.info["status"]) == ("propagate", "converged")
    result = folder.read_result()
    assert result.ids.tolist() == cluster_points()[2]
    assert result.class_names.tolist() == SORTED
    assert result.labelled.sum() == 6
    assert result.flow_u.shape == (3, 60, 3)
    assert result.flow_u.dtype == np.float16
    edge_index, edge_weight, count = folder.read_graph()
    assert (count, edge_index.shape[0], edge_weight.ndim) == (60, 2, 1)
    assert len(folder.read_trace()["step"]) > 1
    assert sorted(path.name for path in table.iterdir()) == ["features.npz", "labels.csv", "out.csv", "run"]


def test_the_run_knows_its_line_and_one_made_in_python_says_so(table, monkeypatch):
    pytest.importorskip("jinja2", reason="the page needs the extra 'report'")
    from tg_crepe.report import write_report

    monkeypatch.chdir(table)
    assert run(["propagate", "features.npz", "--labels=labels.csv", "-o", "o u t.csv", "-k8", "--run", "run"]) == 0
    line = "tg-crepe propagate features.npz --labels=labels.csv -o 'o u t.csv' -k8 --run run"
    folder = RunFolder.open("run")
    assert folder.info["command_line"] == line
    assert f"<code>{line}</code>" in unescape(write_report(folder).read_text())
    other = RunFolder.create("made", "propagate", {"k": 8})
    assert "Made from Python" in write_report(other).read_text()


def truth_table(folder, unknown: int = 0) -> list[str]:
    """Writes truth.csv with true labels of all but some nodes, the last two of the others wrong; returns the lines."""
    _, y, ids = cluster_points()
    names = [CLASSES[c] for c in y]
    names[-2:] = [CLASSES[(c + 1) % 3] for c in y[-2:]]
    lines = [f"{i},{name}" for i, name in zip(ids[unknown:], names[unknown:], strict=True)]
    (folder / "truth.csv").write_text("id,label\n" + "\n".join(lines) + "\n")
    return lines


def test_truth_reaches_the_report_and_never_the_model(table):
    pytest.importorskip("jinja2", reason="the page needs the extra 'report'")
    from tg_crepe.report import write_report

    assert propagate(table, out="without.csv") == 0
    truth_table(table, unknown=20)
    assert propagate(table, "--run", str(table / "run"), "--truth", str(table / "truth.csv")) == 0
    assert (table / "out.csv").read_bytes() == (table / "without.csv").read_bytes()
    result = RunFolder.open(table / "run").read_result()
    assert result.truth[:20].tolist() == [-1] * 20
    assert (result.truth[20:] != result.label[20:]).nonzero()[0].tolist() == [38, 39]
    page = write_report(table / "run").read_text()
    assert "5.00 % of the pseudo-labels are wrong" in page  # two of forty
    assert "Expected calibration error" in page
    assert "Most often mistaken" in page


def test_truth_may_be_a_column_of_the_labels(table):
    truth_table(table)
    true = dict(line.split(",") for line in (table / "truth.csv").read_text().splitlines()[1:])
    rows = [line.split(",") for line in (table / "labels.csv").read_text().splitlines()[1:]]
    lines = [f"{name},{label},{true[name]}" for name, label in rows]
    (table / "labels.csv").write_text("id,label,true_class\n" + "\n".join(lines) + "\n")
    for number, source in enumerate((str(table / "truth.csv"), "true_class")):
        assert propagate(table, "--run", str(table / f"run{number}"), "--truth", source, "--force") == 0
    first, second = (RunFolder.open(table / f"run{number}").read_result().truth for number in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0


def test_force_replaces_and_its_absence_does_not(table, capsys):
    (table / "out.csv").write_text("mine")
    assert propagate(table) == 2
    assert "exists; --force replaces it" in capsys.readouterr().err
    assert (table / "out.csv").read_text() == "mine"
    assert propagate(table, "--force") == 0
    assert len(read_csv(table / "out.csv")) == 60


def test_rows_out_of_reach_are_blank_and_counted(table, capsys):
    x, _, ids = cluster_points()
    np.savez(table / "features.npz", x=np.concatenate([x, np.full((5, 4), -90.0, np.float32)]), ids=[*ids, *"abcde"])
    assert propagate(table, "--metric", "euclidean", "-k", "4") == 0
    captured = capsys.readouterr()
    assert "5 out of reach" in captured.out
    assert captured.err.startswith("warning: 5 node(s) lie in components without a label")
    last = read_csv(table / "out.csv")[-1]
    assert (last["label"], last["reached"], float(last["certainty"])) == ("", "false", 0.0)


def test_a_solver_that_does_not_converge_gives_exit_code_1_and_the_table(table, monkeypatch, capsys):
    solve = CrepePropagation._solve

    def stall(self, task):
        from dataclasses import replace

        return replace(solve(self, task), status="step_limit")

    monkeypatch.setattr(CrepePropagation, "_solve", stall)
    assert propagate(table) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: CrepePropagation ended with status 'step_limit'")
    assert "status step_limit" in captured.out
    assert len(read_csv(table / "out.csv")) == 60
    assert issubclass(ConvergenceWarning, Warning)


def test_an_image_folder_with_a_backbone(table, capsys):
    pytest.importorskip("PIL", reason="images need the extra 'vision'")
    from PIL import Image

    from tg_crepe.nn import get_backbone

    rng = np.random.default_rng(0)
    for place in range(24):
        kind = ("dark", "light")[place % 2]
        folder = table / "images" / (kind if place < 8 else "unlabelled")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (16, 16, 3)) + (180 if kind == "light" else 0)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place:02d}.png")
    network = get_backbone("small_cnn", 3, 2, 16)
    torch.save(network.state_dict(), table / "weights.pt")
    torch.save({"format": 1, "model": network.state_dict()}, table / "last.pt")
    images = ["propagate", str(table / "images"), "--backbone", "small_cnn", "-k", "5", "--run", str(table / "run")]
    for weights in ("weights.pt", "last.pt"):
        out = table / f"{weights}.csv"
        assert run([*images, "--force", "--checkpoint", str(table / weights), "-o", str(out)]) == 0
        rows = read_csv(out)
        assert [row["id"] for row in rows][:2] == ["dark/00.png", "dark/02.png"]
        assert len(rows) == 24
    node, pixels = RunFolder.open(table / "run").read_thumbnails()
    assert (len(node), pixels.shape) == (24, (24, 3, 16, 16))
    assert run([*images[:-2], "--checkpoint", str(table / "features.npz"), "-o", str(table / "no.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def answer(path, truth, skip=()) -> int:
    """Fills in the labels of a table that label-next wrote; says how many."""
    rows = read_csv(path)
    for row in rows:
        row["label"] = "" if row["id"] in skip else truth[row["id"]]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return sum(bool(row["label"]) for row in rows)


def test_answers_to_label_next_are_taken_with_the_labels_that_were_there(table, capsys):
    _, y, ids = cluster_points()
    truth = {name: CLASSES[c] for name, c in zip(ids, y, strict=True)}
    asked = table / "to-label.csv"
    assert propagate(table, "--run", str(table / "run")) == 0
    assert run(["label-next", str(table / "run"), "-n", "5", "-o", str(asked)]) == 0
    capsys.readouterr()
    # As it was written, nothing in it is a label: guesses are no truth.
    assert propagate(table, "--labels", str(asked), "--json", out="blank.csv") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["labelled"], summary["asked"]) == (6, False)
    assert (table / "blank.csv").read_text() == (table / "out.csv").read_text()
    first = read_csv(asked)[0]["id"]
    assert answer(asked, truth, skip=(first,)) == 4
    assert propagate(table, "--labels", str(asked), "--json", out="more.csv") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["labelled"], summary["asked"]) == (10, True)
    # Their counts say nothing of the size of the classes.
    assert propagate(table, "--labels", str(asked), "--sampling", "chosen", out="chosen.csv") == 0
    assert "some labels were asked for" in capsys.readouterr().out
    assert (table / "more.csv").read_text() == (table / "chosen.csv").read_text()


def test_tables_that_contradict_each_other_are_refused(table, capsys):
    first = next(row for row in read_csv(table / "labels.csv") if row["label"])
    other = next(name for name in CLASSES if name != first["label"])
    (table / "more.csv").write_text(f"id,label\n{first['id']},{other}\n")
    assert propagate(table, "--labels", str(table / "more.csv"), out="none.csv") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"it calls '{first['id']}' {other}, a table before it says {first['label']}" in error
    assert not (table / "none.csv").exists()
    (table / "more.csv").write_text(f"id,label\n{first['id']},{first['label']}\n")  # the same once more is none
    assert propagate(table, "--labels", str(table / "more.csv"), out="some.csv") == 0


def test_a_profile_says_where_the_seconds_went_and_they_add_up(table, capsys):
    assert propagate(table, "--profile") == 0
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[0].split() == ["seconds", "processor"]
    spent = {line[:-20].strip(): [float(number) for number in line.split()[-2:]] for line in lines[1:]}
    stages = ["imports and checks", "reading", "graph of the nearest neighbours", "linear head"]
    assert list(spent) == [*stages, "pseudo-labels by CrepePropagation", "writing", "the rest", "all"]
    for column in range(2):
        parts = sum(numbers[column] for name, numbers in spent.items() if name != "all")
        assert parts == pytest.approx(spent["all"][column], abs=0.1)


def test_a_profile_is_not_for_shards(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text("{}")
    assert run(["propagate", str(tmp_path), "-o", str(tmp_path / "out"), "--profile"]) == 2
