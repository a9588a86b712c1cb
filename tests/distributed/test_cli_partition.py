from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
import torch
from cli_inputs import cluster_points, write_clusters

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")
pytest.importorskip("pymetis", reason="partitions need the extra 'distributed'")

from tg_crepe import knn_graph
from tg_crepe.cli.app import run
from tg_crepe.distributed import Manifest, build_graph, open_shard


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with features.npz and labels.csv, features.npy with labels by number, and graphs."""
    write_clusters(tmp_path)
    x, y, ids = cluster_points()
    np.save(tmp_path / "features.npy", x)
    rows = [f"{i},{y[i]}" for i in range(9)]
    (tmp_path / "numbers.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), 5, "euclidean")
    graph = {"edge_index": edge_index.numpy(), "edge_weight": edge_weight.numpy(), "num_nodes": 60}
    np.savez(tmp_path / "graph.npz", ids=np.array(ids), **graph)
    matrix = scipy.sparse.coo_matrix((edge_weight.numpy(), edge_index.numpy()), (60, 60))
    scipy.sparse.save_npz(tmp_path / "csr.npz", matrix.tocsr())
    scipy.sparse.save_npz(tmp_path / "coo.npz", matrix)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_features_are_divided_and_their_graph_is_built(folder, capsys):
    line = ["partition", "features.npy", "-n", "1", "-o", "shards", "--labels", "numbers.csv", "-k", "5"]
    assert run([*line, "--metric", "euclidean"]) == 0
    assert "60 rows" in capsys.readouterr().out
    build_graph(folder / "shards")
    shard = open_shard(folder / "shards", 0, 1)
    x, y, _ = cluster_points()
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), 5, "euclidean")
    order = (edge_index[0] * 60 + edge_index[1]).argsort()
    assert torch.equal(shard.col.long(), edge_index[1, order])
    assert torch.equal(shard.weight, edge_weight[order])
    assert shard.y.tolist() == [*y[:9].tolist(), *[-1] * 51]
    assert shard.mask.tolist() == [True] * 9 + [False] * 51
    assert shard.class_names == ("0", "1", "2")
    assert shard.names is None


def test_the_report_tells_nodes_and_cut(folder, capsys):
    assert (
        run(["partition", "features.npz", "-n", "3", "-o", "shards", "--labels", "labels.csv", "-k", "5", "--json"])
        == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert sum(part["nodes"] for part in summary["parts"]) == summary["nodes"] == 60
    assert 0 <= summary["estimated_cut"] < 0.5
    _, _, ids = cluster_points()
    assert Manifest.read(folder / "shards").class_names == ("blue", "green", "red")
    for rank in range(3):
        part = folder / "shards" / f"part-{rank:05d}"
        assert np.load(part / "names.npy").tolist() == [ids[i] for i in np.load(part / "node_id.npy")]


@pytest.mark.parametrize("name", ["graph.npz", "csr.npz", "coo.npz"])
def test_a_graph_is_divided_into_shards_that_can_be_opened(folder, capsys, name):
    labels = "labels.csv" if name == "graph.npz" else "numbers.csv"
    assert run(["partition", name, "-n", "3", "-o", "shards", "--labels", labels]) == 0
    text = capsys.readouterr().out
    shards = [open_shard(folder / "shards", rank, 3) for rank in range(3)]
    report = Manifest.read(folder / "shards").report
    assert f"{report['num_edges']:,} edges, {report['cut_edges']:,} of them" in text
    assert sum(shard.num_own for shard in shards) == 60
    assert report["cut_edges"] == 0  # three clusters far apart
    assert sum(int(shard.mask.sum()) for shard in shards) == (6 if name == "graph.npz" else 9)
    _, _, ids = cluster_points()
    for shard in shards:
        assert shard.num_classes == 3
        if name == "graph.npz":
            assert shard.names.tolist() == [ids[i] for i in shard.node_id.tolist()]


def partition(name: str, *more: str) -> list[str]:
    return ["partition", name, "-n", "2", "-o", "shards", *more]


#: The command line, and what the one line says.
LINES = {
    "features are missing": (partition("no.npy"), "no.npy' is missing"),
    "a table is missing": (partition("no.csv"), "no.csv' is missing"),
    "features of another format": (partition("labels.txt"), "is missing"),
    "a damaged graph": (partition("bad.npz"), "bad.npz' cannot be used: it holds no graph"),
    "labels are missing": (partition("features.npy", "--labels", "no.csv"), "no.csv' is missing"),
    "an unknown id": (partition("features.npy", "--labels", "labels.csv"), "ids are not among the features"),
    "no part": (["partition", "features.npy", "-n", "0", "-o", "shards"], "-n"),
    "too many parts": (["partition", "features.npy", "-n", "61", "-o", "shards"], "'parts' must be an integer in"),
    "too many neighbours": (partition("features.npy", "-k", "60"), "'k' must be an integer in [1, num_nodes - 1]"),
    "an unknown metric": (partition("features.npy", "--metric", "taxi"), "'metric' must be one of"),
    "a folder in use": (["partition", "features.npy", "-n", "2", "-o", "used", "--force"], "it is left alone"),
    "an earlier partition": (["partition", "features.npy", "-n", "2", "-o", "earlier"], "--force replaces"),
    "somebody else's manifest": (
        ["partition", "features.npy", "-n", "2", "-o", "earlier", "--force"],
        "must be a manifest",
    ),
    "a folder in no folder": (["partition", "features.npy", "-n", "2", "-o", "no/shards"], "does not exist"),
    "a file": (["partition", "features.npy", "-n", "2", "-o", "labels.csv"], "is a file"),
}


@pytest.mark.parametrize("what", LINES)
def test_a_wrong_line_is_one_line_and_code_two_and_writes_nothing(folder, capsys, what):
    line, message = LINES[what]
    np.savez(folder / "bad.npz", edge_index=np.array([[0], [-1]]))
    (folder / "used").mkdir()
    (folder / "used" / "thesis.tex").touch()
    (folder / "earlier").mkdir()
    (folder / "earlier" / "manifest.json").write_text("{}")
    before = sorted(str(path) for path in folder.rglob("*"))
    assert run(line) == 2
    text = capsys.readouterr()
    assert text.out == ""
    assert message in text.err
    assert text.err.count("\n") == 1
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_force_replaces_an_earlier_partition(folder, capsys):
    assert run(partition("features.npy", "-k", "5")) == 0
    assert run(["partition", "features.npy", "-n", "3", "-o", "shards", "-k", "5", "--force"]) == 0
    assert Manifest.read(folder / "shards").parts == 3
    assert len(list((folder / "shards").glob("part-*"))) == 3
