"""Damaged and hand-made runs: one line and exit code 2 from every reader."""

import json

import numpy as np
import pytest
from cli_inputs import write_clusters

from tg_crepe.cli.app import run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_clusters(folder)
    line = f"propagate {folder}/features.npz --labels {folder}/labels.csv -o {folder}/p.csv --run {folder}/run"
    assert run(line.split()) == 0
    return folder / "run"


def with_array(file, name, change):
    def damage(folder):
        with np.load(folder / file) as content:
            arrays = dict(content)
        arrays[name] = change(arrays[name])
        np.savez(folder / file, **arrays)

    return damage


def with_info(change):
    def damage(folder):
        info = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(change(info))

    return damage


def first(value):
    def change(array):
        array = array.copy()
        array.reshape(-1)[0] = value
        return array

    return change


DAMAGES = {
    "a label of 99": with_array("result.npz", "label", first(99)),
    "a label of -2": with_array("result.npz", "label", first(-2)),
    "labels as floats": with_array("result.npz", "label", lambda a: a.astype(float)),
    "labels as text": with_array("result.npz", "label", lambda a: a.astype(str)),
    "reached as text": with_array("result.npz", "reached", lambda a: a.astype(str)),
    "labelled as numbers": with_array("result.npz", "labelled", lambda a: a.astype(int)),
    "probabilities that are NaN": with_array("result.npz", "prob", first(np.nan)),
    "a probability of 7": with_array("result.npz", "prob", first(7)),
    "certainties as a table": with_array("result.npz", "certainty", lambda a: a[:, None]),
    "ids as a number": with_array("result.npz", "ids", lambda a: np.array(5)),
    "no class": with_array("result.npz", "class_names", lambda a: a[:0]),
    "class names as numbers": with_array("result.npz", "class_names", lambda a: np.arange(len(a))),
    "a position at infinity": with_array("result.npz", "position", first(np.inf)),
    "a kept node out of range": with_array("result.npz", "flow_node", first(1000)),
    "a flow of another shape": with_array("result.npz", "flow_u", lambda a: a[:, :1]),
    "an edge to nowhere": with_array("graph.npz", "edge_index", first(60)),
    "edges as floats": with_array("graph.npz", "edge_index", lambda a: a.astype(float)),
    "a negative weight": with_array("graph.npz", "edge_weight", first(-1)),
    "weights as text": with_array("graph.npz", "edge_weight", lambda a: a.astype(str)),
    "a list of numbers of nodes": with_array("graph.npz", "num_nodes", lambda a: np.array([60, 60])),
    "deeply nested json": lambda folder: (folder / "run.json").write_text("[" * 100_000),
    "a huge number": lambda folder: (folder / "run.json").write_text('{"a": ' + "9" * 10_000 + "}"),
    "settings as a list": with_info(lambda info: json.dumps({**info, "settings": []})),
    "no status": with_info(lambda info: json.dumps({key: info[key] for key in info if key != "status"})),
    "an expected error of text": with_info(lambda info: json.dumps({**info, "expected_error": "low"})),
    "an expected error of 9": with_info(
        lambda info: json.dumps({**info, "expected_error": {"value": 9, "low": 0, "high": 1}})
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_one_line(whole, tmp_path, capsys, damage):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    DAMAGES[damage](folder)
    graph = (
        damage in ("an edge to nowhere", "edges as floats", "a negative weight", "weights as text") or "nodes" in damage
    )
    for line in ("label-next {} -n 3", "report {} -o {}.html"):
        if graph and line.startswith("report"):
            continue  # the page counts edges alone
        assert run(line.format(folder, folder).split()) == 2, line
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "cannot be used" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
