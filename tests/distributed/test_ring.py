from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from distributed_problems import fashion_images
from ring_runs import build_all
from sklearn.datasets import load_digits, make_moons

from tg_crepe import GraphWarning, knn_graph
from tg_crepe.distributed import Manifest, NodeLabels, Shard, build_graph, open_shard
from tg_crepe.distributed import ring_neighbors as search
from tg_crepe.distributed.feature_files import FeatureRows, write_features
from tg_crepe.distributed.ring import Ring
from tg_crepe.graph import neighbors
from tg_crepe.graph.metric import Placement


def moons() -> np.ndarray:
    return make_moons(300, noise=0.1, random_state=100)[0].astype(np.float32)


def digits() -> np.ndarray:
    return load_digits().data.astype(np.float32)


def equal_rows() -> np.ndarray:
    """Every row many times, also on different ranks, so that numbers break the ties."""
    return np.random.default_rng(100).integers(0, 3, (400, 2)).astype(np.float32) + 1


#: Features, k and metric.
CASES = {"moons": (moons, 10, "euclidean"), "digits": (digits, 20, "cosine"), "equal": (equal_rows, 6, "euclidean")}

#: Numbers of processes that build every case.
WORLDS = (3, 2)

#: What is wrong with a folder, and what all ranks of two are told.
WRONG = {
    "world": "is for 3 process(es), got a world size of 2",
    "missing": "x.npy' is missing",
    "nan": "must be finite",
}


def write_case(folder: Path, name: str, parts: int) -> None:
    make, k, metric = CASES[name]
    write_rows(folder, make(), k, metric, parts)


def write_rows(folder: Path, x: np.ndarray, k: int, metric: str, parts: int) -> None:
    owner = np.random.default_rng(101).integers(0, parts, len(x))
    owner[owner == 1] = np.where(np.arange(len(x)) % 2, 1, 0)[owner == 1]  # parts of different sizes
    folder.mkdir(parents=True)
    write_features(folder, FeatureRows(x), owner, parts, k, Placement(metric), NodeLabels(np.arange(len(x)) % 4))


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Folders of features whose graphs were built by two and by three processes."""
    folder = tmp_path_factory.mktemp("ring")
    for world in WORLDS:
        for name in CASES:
            write_case(folder / str(world) / name, name, world)
    write_case(folder / "2" / "world", "moons", 3)
    write_case(folder / "2" / "missing", "moons", 2)
    (folder / "2" / "missing" / "part-00001" / "x.npy").unlink()
    (folder / "2" / "nan").mkdir()
    x = np.where(np.arange(300) == 299, np.nan, 1.0)[:, None]
    write_features(folder / "2" / "nan", FeatureRows(x), np.arange(300) // 150, 2, 5, Placement("cosine"), NodeLabels())
    build_all(folder, WORLDS)
    return folder


def assert_same_shard(shard: Shard, expected: Shard) -> None:
    for name in ("node_id", "halo_id", "rowptr", "col", "weight", "y", "mask"):
        found, wanted = getattr(shard, name), getattr(expected, name)
        assert found.dtype == wanted.dtype, name
        assert torch.equal(found, wanted), name
    assert shard.recv_counts == expected.recv_counts
    assert [rows.tolist() for rows in shard.send] == [rows.tolist() for rows in expected.send]
    assert (shard.num_nodes, shard.num_classes) == (expected.num_nodes, expected.num_classes)


def assert_same_graph(folder: Path, name: str, parts: int) -> None:
    """Every shard is that of the graph which one process builds, to the bit."""
    make, k, metric = CASES[name]
    x = torch.from_numpy(make())
    assert_shards_of(folder, x, knn_graph(x, k, metric), parts)


def assert_shards_of(folder: Path, x: torch.Tensor, graph: tuple[torch.Tensor, torch.Tensor], parts: int) -> None:
    opened = [open_shard(folder, rank, parts) for rank in range(parts)]
    owner = torch.empty(len(x), dtype=torch.long)
    for shard in opened:
        owner[shard.node_id] = shard.rank
        assert torch.equal(shard.x, x[shard.node_id])
    y = torch.arange(len(x)) % 4
    for shard in opened:
        assert_same_shard(shard, Shard.from_graph(*graph, owner, shard.rank, parts, y, y >= 0))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("world", WORLDS)
def test_several_processes_build_the_graph_of_one_to_the_bit(built, world, name):
    folder = built / str(world) / name
    assert_same_graph(folder, name, world)
    told = [json.loads((built / f"{world}-{name}-{rank}.json").read_text()) for rank in range(world)]
    assert all(one["report"] == Manifest.read(folder).report for one in told)


@pytest.mark.slow
def test_four_and_eight_processes_build_the_graph_of_one_to_the_bit(tmp_path):
    for world in (8, 4):
        for name in CASES:
            write_case(tmp_path / str(world) / name, name, world)
    build_all(tmp_path, (8, 4))
    for world in (8, 4):
        for name in CASES:
            assert_same_graph(tmp_path / str(world) / name, name, world)


@pytest.mark.slow
def test_the_graph_of_many_images_is_that_of_one_process(tmp_path, data_root):
    worlds = (8, 4, 3, 2, 1)
    x, _ = fashion_images(data_root)
    for world in worlds:
        write_rows(tmp_path / str(world) / "fashion", x.numpy(), 20, "cosine", world)
    build_all(tmp_path, worlds, most_rows=4096)
    graph = knn_graph(x, 20, "cosine")
    for world in worlds:
        assert_shards_of(tmp_path / str(world) / "fashion", x, graph, world)


@pytest.mark.parametrize("name", CASES)
def test_one_process_builds_the_graph_too_and_only_once(tmp_path, name):
    write_case(tmp_path / "shards", name, 1)
    report = build_graph(tmp_path / "shards")
    assert_same_graph(tmp_path / "shards", name, 1)
    assert report.cut == 0
    before = (tmp_path / "shards" / "manifest.json").stat().st_mtime_ns
    assert build_graph(tmp_path / "shards") == report
    assert (tmp_path / "shards" / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(("case", "message"), WRONG.items())
def test_all_ranks_end_with_the_same_error(built, case, message):
    told = [json.loads((built / f"2-{case}-{rank}.json").read_text())["error"] for rank in range(2)]
    assert message in told[0]
    assert told[0] == told[1]
    assert told[0].startswith("rank 0: " if case == "world" else "rank 1: ")
    assert not Manifest.read(built / "2" / case).has_graph


HARD = {
    "one place": np.ones((200, 3)),
    "equal rows": equal_rows(),
    "a grid": np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), -1).reshape(-1, 2) + 1,
    "close together and far away": np.random.default_rng(100).normal(size=(200, 3)) * 1e-4 + 1e4,
    "huge": np.random.default_rng(100).normal(size=(200, 3)) * 1e150,
    "zero rows": np.concatenate([np.zeros((20, 4)), np.random.default_rng(100).normal(size=(100, 4))]),
}


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("name", HARD)
def test_hard_data_are_searched_as_on_one_machine(monkeypatch, name, metric):
    monkeypatch.setattr(search, "_LEAST_ROWS", 1)
    monkeypatch.setattr(search, "_MOST_ROWS", 64)
    x, k = torch.from_numpy(HARD[name]), 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        found = search.ring_neighbors(Ring(), x, torch.arange(len(x)), k, Placement(metric))
    points = Placement(metric).place(x)
    neighbor, distance = neighbors.nearest_neighbors(points, k, "torch", 64.0)
    assert torch.equal(found.neighbor, neighbor)
    assert torch.equal(found.distance, distance)
    assert bool((found.owner == 0).all())


def test_without_faiss_the_edges_are_the_same(monkeypatch):
    x = torch.from_numpy(moons())
    with_faiss = search.ring_neighbors(Ring(), x, torch.arange(len(x)), 10, Placement("euclidean"))
    monkeypatch.setattr(search, "available", lambda _: False)
    without = search.ring_neighbors(Ring(), x, torch.arange(len(x)), 10, Placement("euclidean"))
    assert all(torch.equal(a, b) for a, b in zip(with_faiss, without, strict=True))


def test_a_search_less_precise_than_it_should_be_does_not_reach_the_edges(monkeypatch):
    def coarse(points):
        exact = neighbors.torch_queries(points.half().float())
        return lambda queries, count: exact(queries.half().float(), count)

    x = torch.from_numpy(digits()[:500])
    expected = search.ring_neighbors(Ring(), x, torch.arange(len(x)), 10, Placement("cosine"))
    monkeypatch.setattr(search, "faiss_queries", coarse)
    found = search.ring_neighbors(Ring(), x, torch.arange(len(x)), 10, Placement("cosine"))
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_zero_rows_are_counted_once():
    x = torch.from_numpy(HARD["zero rows"])
    with pytest.warns(GraphWarning, match=r"20 zero row\(s\) of 'x'"):
        search.ring_neighbors(Ring(), x, torch.arange(len(x)), 5, Placement("cosine"))
