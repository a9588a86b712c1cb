from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import dense_adjacency, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from tg_crepe.distributed import Manifest, Shard, ShardError, open_shard, write_shards
from tg_crepe.distributed.partition import PartitionReport, ShardSize
from tg_crepe.distributed.shard import cut_shard

PARTS = 3
GRAPH = random_graph(100, 40, density=0.1)
OWNER = torch.from_numpy(np.random.default_rng(100).integers(0, PARTS, 40))
X = torch.randn(40, 5, generator=torch.Generator().manual_seed(100))
Y = torch.arange(40) % 4


def shards(parts: int = PARTS, owner: torch.Tensor = OWNER) -> list[Shard]:
    mask = torch.arange(40) < 12
    return [cut_shard(GRAPH, owner, rank, parts, Y, mask, X) for rank in range(parts)]


def dense_rows(shard: Shard) -> np.ndarray:
    """The rows of the own nodes of the weight matrix."""
    column = torch.cat([shard.node_id, shard.halo_id])[shard.col.long()]
    row = np.repeat(np.arange(shard.num_own), np.diff(shard.rowptr))
    dense = np.zeros((shard.num_own, shard.num_nodes))
    dense[row, column] = shard.weight
    assert (dense > 0).sum() == shard.col.numel()
    assert all(np.all(np.diff(column[row == i]) > 0) for i in range(shard.num_own)), "ascending within a row"
    return dense


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), parts=st.integers(1, 6))
def test_shards_are_the_rows_of_the_weight_matrix_and_their_exchange_fills_the_halo(seed, parts):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, int(rng.integers(1, 20)), density=rng.random())
    owner = torch.from_numpy(rng.integers(0, parts, graph.num_nodes))
    made = [cut_shard(graph, owner, rank, parts) for rank in range(parts)]
    dense = dense_adjacency(graph)
    for shard in made:
        assert torch.equal(shard.node_id, (owner == shard.rank).nonzero().view(-1))
        assert np.array_equal(dense_rows(shard), dense[shard.node_id.numpy()])
        sent = [other.node_id[other.send[shard.rank]] for other in made]
        assert torch.equal(torch.cat(sent), shard.halo_id)
        assert shard.recv_counts == [rows.numel() for rows in sent]
        assert shard.send[shard.rank].numel() == 0
    report = PartitionReport([ShardSize.of(shard) for shard in made])
    assert report.num_edges == graph.num_edges
    assert report.cut_edges == int((owner[graph.edge_index[0]] != owner[graph.edge_index[1]]).sum())


def test_a_graph_is_made_canonical_first():
    edge_index = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 0, 2, 3]])
    weight = torch.tensor([1.0, 2.0, 5.0, 9.0, 1.0])
    shard = Shard.from_graph(edge_index, weight, torch.tensor([0, 1, 0, 1]), 0, 2, torch.tensor([1, -1, 0, -1]))
    assert shard.node_id.tolist() == [0, 2]
    assert shard.halo_id.tolist() == [1, 3]
    assert (shard.rowptr.tolist(), shard.col.tolist(), shard.weight.tolist()) == ([0, 1, 2], [2, 3], [5.0, 1.0])
    assert shard.num_classes == 2
    assert not shard.multi_label


def test_findings_are_told_from_classes():
    y = torch.tensor([[1, 0, -1], [0, 1, 1]])
    shard = Shard.from_graph(torch.tensor([[0], [1]]), None, torch.tensor([0, 1]), 1, 2, y)
    assert (shard.num_classes, shard.multi_label) == (3, True)
    assert shard.y.tolist() == [[0, 1, 1]]


@pytest.mark.parametrize(("rank", "owner", "message"), [(2, [0, 1], "'rank' must be in"), (0, [0, 2], "got 0 to 2")])
def test_a_rank_that_is_not_there_is_an_error(rank, owner, message):
    with pytest.raises(ValueError, match=message):
        Shard.from_graph(torch.tensor([[0], [1]]), None, torch.tensor(owner), rank, 2)


@pytest.fixture
def folder(tmp_path) -> Path:
    write_shards(tmp_path / "shards", iter(shards()))
    return tmp_path / "shards"


def test_a_shard_is_opened_as_it_was_written(folder):
    for expected in shards():
        shard = open_shard(folder, expected.rank, PARTS)
        for name in ("node_id", "halo_id", "rowptr", "col", "weight", "y", "mask", "x"):
            assert getattr(shard, name).dtype == getattr(expected, name).dtype
            assert torch.equal(getattr(shard, name), getattr(expected, name)), name
        assert [rows.tolist() for rows in shard.send] == [rows.tolist() for rows in expected.send]
        assert shard.send_counts == expected.send_counts
        assert shard.recv_counts == expected.recv_counts
        assert (shard.num_nodes, shard.num_classes, shard.multi_label) == (40, 4, False)
    report = PartitionReport([ShardSize.of(shard) for shard in shards()])
    assert PartitionReport.from_dict(Manifest.read(folder).report) == report


def test_a_rank_reads_only_its_own_part(folder):
    shutil.rmtree(folder / "part-00000")
    assert open_shard(folder, 1, PARTS).rank == 1


def test_what_is_changed_in_memory_stays_out_of_the_file(folder):
    open_shard(folder, 0, PARTS).x.zero_()
    assert torch.equal(open_shard(folder, 0, PARTS).x, X[OWNER == 0])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


WRONG = {
    "a file is missing": (
        lambda f: (f / "part-00001/col.npy").unlink(),
        r"part-00001/col\.npy' is missing: .* \d+ bytes",
    ),
    "a part is missing": (lambda f: shutil.rmtree(f / "part-00001"), r"part-00001/\w+\.npy' is missing"),
    "a file is truncated": (
        lambda f: truncate(f / "part-00001/x.npy"),
        r"x\.npy' must have \d+ bytes, got \d+: it is trunc",
    ),
    "a bit is flipped": (
        lambda f: flip(f / "part-00001/weight.npy"),
        r"weight\.npy' must have the sha256 \w+, got \w+",
    ),
    "the manifest is missing": (lambda f: (f / "manifest.json").unlink(), r"manifest\.json' is missing"),
    "the manifest is cut": (lambda f: truncate_json(f), "must be a manifest of shards"),
    "the manifest is another": (lambda f: (f / "manifest.json").write_text("[]"), "must be a manifest of shards"),
    "the manifest is newer": (lambda f: change(f, version=99), "must be of version 1, got 99"),
    "the manifest forgets a part": (lambda f: change(f, files={}), "must name the files of part-00001, got none"),
}


def truncate_json(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text()[:100])


def change(folder: Path, **values: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("what", WRONG)
def test_a_folder_that_cannot_be_used_is_named_with_what_was_expected(folder, what):
    spoil, message = WRONG[what]
    spoil(folder)
    with pytest.raises(ShardError, match=message):
        open_shard(folder, 1, PARTS)


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [(0, 2, r"is for 3 process\(es\), got a world size of 2"), (3, 3, r"'rank' must be in \[0, 2\], got 3")],
)
def test_another_world_is_an_error(folder, rank, world_size, message):
    with pytest.raises(ShardError, match=message):
        open_shard(folder, rank, world_size)


def test_a_folder_that_was_not_completed_has_no_manifest(folder):
    def fails():
        yield shards()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(folder, fails())
    with pytest.raises(ShardError, match="were not completed"):
        open_shard(folder, 0, PARTS)
