from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import random_graph
from sklearn.datasets import make_blobs
from small_graphs import barbell, disjoint, path, star

pytest.importorskip("pymetis", reason="partitions need the extra 'distributed'")

from tg_crepe import GraphWarning, knn_graph
from tg_crepe.distributed import (
    Manifest,
    NodeLabels,
    PartitionReport,
    ShardError,
    build_graph,
    feature_files,
    open_shard,
    partition_features,
    partition_graph,
)
from tg_crepe.distributed.partition import ShardSize
from tg_crepe.distributed.shard import cut_shard
from tg_crepe.graph import CanonicalGraph, canonical_graph


def report_of(graph: CanonicalGraph, owner: torch.Tensor, parts: int) -> PartitionReport:
    return PartitionReport([ShardSize.of(cut_shard(graph, owner, rank, parts)) for rank in range(parts)])


def test_a_graph_is_cut_where_it_is_thinnest():
    report = report_of(barbell(20), partition_graph(barbell(20), 2), 2)
    assert report.cut_edges == 1
    assert report.imbalance == 1
    assert [size.halo for size in report.sizes] == [1, 1]


def test_parts_are_balanced_by_edges_and_not_by_nodes():
    graph = disjoint([barbell(15), path(400)])  # 30 nodes with half of the edges
    report = report_of(graph, partition_graph(graph, 2), 2)
    assert report.imbalance < 1.1
    assert max(size.nodes for size in report.sizes) > 250


@pytest.mark.parametrize("graph", [star(7), path(7), random_graph(100, 7)], ids=["star", "path", "random"])
def test_every_part_has_a_node(graph):
    for parts in range(1, graph.num_nodes + 1):
        assert sorted(set(partition_graph(graph, parts).tolist())) == list(range(parts))


@pytest.mark.parametrize("parts", [0, 8, 2.0])
def test_a_number_of_parts_that_cannot_be_is_an_error(parts):
    with pytest.raises(ValueError, match=r"'parts' must be an integer in \[1, num_nodes\]"):
        partition_graph(path(7), parts)


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match=r"tg-crepe\[distributed\]"):
        partition_graph(path(7), 2)


def features(num_nodes: int = 1200, centers: int = 6) -> tuple[np.ndarray, np.ndarray]:
    x, group = make_blobs(num_nodes, 8, centers=centers, cluster_std=0.5, random_state=100)
    return x.astype(np.float32), group


def test_features_that_lie_together_go_to_the_same_part(tmp_path):
    x, group = features(centers=4)
    found = partition_features(x, tmp_path / "shards", 4, k=10, metric="euclidean")
    assert all(len(set(found.owner[group == i])) == 1 for i in range(4))
    assert (found.cut, found.imbalance) == (0.0, 1.0)
    assert found.num_cells > 4


def test_parts_of_features_hold_every_row_once_with_its_label_and_name(tmp_path):
    x, group = features()
    np.save(tmp_path / "x.npy", x)
    names = np.array([f"n{i}" for i in range(len(x))])
    labels = NodeLabels(np.where(np.arange(len(x)) < 100, group, -1), tuple("abcdef"), names)
    found = partition_features(tmp_path / "x.npy", tmp_path / "shards", 3, k=7, metric="cosine", labels=labels)
    manifest = Manifest.read(tmp_path / "shards")
    assert (manifest.parts, manifest.num_nodes, manifest.num_features) == (3, 1200, 8)
    assert (manifest.k, manifest.metric, manifest.dtype, manifest.class_names) == (
        7,
        "cosine",
        "float32",
        tuple("abcdef"),
    )
    assert not manifest.has_graph
    for rank in range(3):
        part = {file.stem: np.load(file) for file in (tmp_path / "shards" / f"part-{rank:05d}").iterdir()}
        assert np.array_equal(part["node_id"], np.flatnonzero(found.owner == rank))
        assert np.array_equal(part["x"], x[found.owner == rank])
        assert np.array_equal(part["y"], labels.y[found.owner == rank])
        assert np.array_equal(part["mask"], part["y"] >= 0)
        assert np.array_equal(part["names"], names[found.owner == rank])
        with pytest.raises(ShardError, match="its graph must be built first"):
            open_shard(tmp_path / "shards", rank, 3)


def table() -> np.ndarray:
    """Columns with units of their own, one of them constant."""
    x, _ = features(600)
    return x * np.array([1, 2000, 0.01, 5, 0, 1, 1, 30], np.float32) + 7


def directions() -> np.ndarray:
    """Groups of directions with lengths that say nothing."""
    rng = np.random.default_rng(100)
    x = rng.normal(size=(6, 40))[np.arange(600) % 6] + 1.2 * rng.normal(size=(600, 40))
    return (x * rng.lognormal(sigma=0.5, size=(600, 1))).astype(np.float32)


@pytest.mark.parametrize(
    ("make", "metric", "scaled"),
    [(table, "euclidean", True), (directions, "cosine", False), (lambda: features(600)[0], "euclidean", False)],
)
@pytest.mark.filterwarnings("ignore:columns of 'x'")
def test_the_metric_is_chosen_once_as_on_one_machine_and_kept(tmp_path, monkeypatch, make, metric, scaled):
    monkeypatch.setattr(feature_files, "_BLOCK", 0.004)  # about a hundred rows
    x = make()
    partition_features(x, tmp_path / "shards", 1, k=7)
    manifest = Manifest.read(tmp_path / "shards")
    assert (manifest.metric, manifest.factor is not None) == (metric, scaled)
    build_graph(tmp_path / "shards")
    shard = open_shard(tmp_path / "shards", 0, 1)
    edge_index, edge_weight = knn_graph(torch.from_numpy(x), 7)
    order = (edge_index[0] * len(x) + edge_index[1]).argsort()
    assert torch.equal(shard.col.long(), edge_index[1, order])
    assert torch.equal(shard.weight, edge_weight[order])


def test_standardised_columns_are_said_once_and_decide_who_lies_together(tmp_path):
    x, group = features(centers=4)
    x = np.concatenate([x, 1e4 * np.random.default_rng(100).normal(size=(len(x), 1)).astype(np.float32)], axis=1)
    with pytest.warns(GraphWarning, match="very different scale") as record:
        found = partition_features(x, tmp_path / "shards", 4, k=10)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert found.cut < 0.05
    assert all(np.bincount(found.owner[group == i]).max() > 250 for i in range(4))


def test_a_partition_depends_on_its_seed_alone(tmp_path):
    x, _ = features()
    first, second = (partition_features(x, tmp_path / "shards", 4, seed=3).owner for _ in range(2))
    assert np.array_equal(first, second)


def test_the_estimated_cut_is_that_of_the_directed_edges(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_files, "_BLOCK", 0.004)  # about a hundred rows
    x = np.random.default_rng(100).normal(size=(400, 8)).astype(np.float32)  # all rows are in the sample
    found = partition_features(x, tmp_path / "shards", 4, k=9, metric="euclidean")
    squared = ((x[:, None] - x).astype(np.float64) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    neighbor = squared.argsort(axis=1)[:, :9]
    assert found.cut == pytest.approx((found.owner[neighbor] != found.owner[:, None]).mean(), abs=1e-12)


def test_cells_are_as_good_as_the_whole_graph(tmp_path):
    x = np.random.default_rng(100).normal(size=(3000, 3)).astype(np.float32)
    graph, _ = canonical_graph(*knn_graph(torch.from_numpy(x), 10, "euclidean"), len(x))
    found = partition_features(x, tmp_path / "shards", 4, k=10, metric="euclidean")
    by_features = report_of(graph, torch.from_numpy(found.owner), 4)
    by_graph = report_of(graph, partition_graph(graph, 4), 4)
    by_chance = report_of(graph, torch.arange(len(x)) % 4, 4)
    assert by_features.cut < 1.5 * by_graph.cut < 0.25 * by_chance.cut
    assert by_features.imbalance < 1.1


@pytest.mark.parametrize("parts", [2, 8])
def test_equal_rows_are_dealt_out_evenly(tmp_path, parts):
    x = np.concatenate([np.ones((900, 3)), np.random.default_rng(100).normal(size=(100, 3))])
    found = partition_features(x, tmp_path / "shards", parts)
    assert found.imbalance < 1.25


def test_all_features_are_never_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_files, "_BLOCK", 0.5)
    shape = (150_000, 64)
    array = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=shape)
    rng = np.random.default_rng(100)
    for start in range(0, shape[0], 10_000):
        array[start : start + 10_000] = rng.random((10_000, 64), dtype=np.float32)
    del array
    partition_features(np.ones((100, 3)), tmp_path / "small", 2)  # imports and first calls
    tracemalloc.start()
    partition_features(tmp_path / "x.npy", tmp_path / "shards", 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 4 * shape[0] * shape[1]


def spoiled(row: int) -> np.ndarray:
    x = np.ones((50, 2))
    x[row] = np.nan
    return x


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (np.ones(5), {}, r"must be of shape \[num_nodes, num_features\], not empty, got \[5\]"),
        (np.ones((5, 2)) * 1j, {}, "must hold real numbers, got complex128"),
        (spoiled(49), {"k": 3}, "got NaN or infinity in row 49"),
        (np.ones((5, 2)), {"k": 5}, r"'k' must be an integer in \[1, num_nodes - 1\]"),
        (np.ones((50, 2)), {"parts": 51}, "'parts' must be an integer"),
        (np.ones((50, 2)), {"metric": "taxi"}, "'metric' must be one of"),
        (Path("nowhere.npy"), {}, "'nowhere.npy' is missing"),
    ],
)
def test_features_that_cannot_be_divided_are_an_error_and_leave_nothing(tmp_path, source, options, message):
    with pytest.raises(ValueError, match=message):
        partition_features(source, tmp_path / "shards", **{"parts": 2, **options})
    assert list(tmp_path.iterdir()) == []


_MEASURED = """
import resource, sys
from tg_crepe.cli.app import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""


@pytest.mark.slow
def test_a_million_rows_take_less_than_two_gigabytes(tmp_path):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    rng, shape = np.random.default_rng(100), (1_000_000, 128)
    array = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, shape[0], 50_000):
        array[start : start + 50_000] = rng.standard_normal((50_000, shape[1]), dtype=np.float32)
    del array
    line = ["partition", str(tmp_path / "x.npy"), "-n", "8", "-o", str(tmp_path / "shards")]
    done = subprocess.run([sys.executable, "-c", _MEASURED, *line], check=True, capture_output=True, text=True)
    kilobytes = int(done.stdout.split()[-1])
    assert kilobytes * 1024 < 2e9
