from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tg_crepe.distributed.manifest import Manifest, ShardError
from tg_crepe.distributed.partition import PartitionReport, ShardSize
from tg_crepe.distributed.ring import Ring
from tg_crepe.distributed.ring_neighbors import RingNeighbors, ring_neighbors
from tg_crepe.distributed.shard import Shard, shard_of_rows
from tg_crepe.distributed.shard_files import read_part, write_graph
from tg_crepe.graph.knn import neighbor_weight
from tg_crepe.graph.metric import Placement


def build_graph(folder: str | os.PathLike[str]) -> PartitionReport:
    r"""Builds the graph of a folder of features, all ranks together, and writes it beside the features.

    It is the graph of :func:`~tg_crepe.knn_graph` with its exact search, to the bit, with the :math:`k` and the metric
    of the manifest:

    .. math::
        w_{i \to j} = \exp\left(-4 \frac{\|x_i - x_j\|^2}{d_k(x_i)^2}\right), \qquad
        w_{ij} = \max(w_{i \to j}, w_{j \to i}).

    Every rank searches the neighbours of its own rows while blocks of the others go round
    (:func:`~tg_crepe.distributed.ring_neighbors.ring_neighbors`), sends each edge to the rank of its other end, and
    writes its rows. No rank holds more than its part. Where the folder has its graph already, nothing is done.

    .. code-block:: python

        dist.init_process_group("gloo")
        build_graph(folder)
        shard = open_shard(folder, dist.get_rank(), dist.get_world_size())

    Args:
        folder (path-like): The folder, which all ranks see under this name.

    Raises:
        ShardError: on all ranks, if the part of one of them cannot be used.
    """
    place, ring = Path(folder), Ring()
    manifest, arrays = ring.together(lambda: _open_features(place, ring))
    if manifest.report is not None:
        return PartitionReport.from_dict(manifest.report)
    x, node_id = arrays["x"], arrays["node_id"]
    factor = None if manifest.factor is None else torch.tensor(manifest.factor, dtype=torch.float64)
    near = ring_neighbors(ring, x, node_id, int(manifest.k or 0), Placement(str(manifest.metric), factor))
    shard = _symmetric_shard(ring, node_id, manifest.num_nodes, near, x.dtype)
    records = ring.gather(ring.together(lambda: write_graph(place, shard)))
    report = PartitionReport(ring.gather(ShardSize.of(shard)))
    files = {name: record for part in (manifest.files, *records) for name, record in part.items()}
    whole = replace(manifest, files=files, report=report.as_dict())
    ring.together(lambda: whole.write(place) if ring.rank == 0 else None)
    return report


def _open_features(folder: Path, ring: Ring) -> tuple[Manifest, dict[str, Tensor]]:
    """The manifest and a rank's features, checked."""
    manifest = Manifest.read(folder)
    manifest.check_part(folder, ring.rank, ring.world_size)
    if manifest.report is None and (manifest.num_features is None or manifest.k is None):
        raise ShardError(f"'{folder}' must hold features or a graph, got neither")
    arrays = read_part(folder, manifest, ring.rank)
    return manifest, {name: torch.from_numpy(arrays[name]) for name in ("x", "node_id") if name in arrays}


def _symmetric_shard(ring: Ring, node_id: Tensor, num_nodes: int, near: RingNeighbors, dtype: torch.dtype) -> Shard:
    """The rows of the symmetric graph: own edges, and those that other ranks (or this one) have to own nodes."""
    weight = neighbor_weight("gaussian", near.distance, lambda: near.distance).to(dtype).view(-1)
    row = torch.arange(node_id.numel()).repeat_interleave(near.neighbor.size(1))
    other, owner = near.neighbor.view(-1), near.owner.view(-1)
    by_owner = owner.argsort(stable=True)
    counts, (target, source, back_weight) = ring.exchange(
        torch.bincount(owner, minlength=ring.world_size), other[by_owner], node_id[row[by_owner]], weight[by_owner]
    )
    back_row = torch.searchsorted(node_id, target)
    key, place = torch.unique(torch.cat([row * num_nodes + other, back_row * num_nodes + source]), return_inverse=True)
    both = weight.new_zeros(key.numel()).scatter_reduce_(0, place, torch.cat([weight, back_weight]), "amax")
    both_owner = torch.empty_like(key)
    both_owner[place] = torch.cat([owner, torch.arange(ring.world_size).repeat_interleave(counts)])
    degree = torch.bincount(key // num_nodes, minlength=node_id.numel())
    rowptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    return shard_of_rows(ring.rank, ring.world_size, num_nodes, node_id, rowptr, key % num_nodes, both_owner, both)
