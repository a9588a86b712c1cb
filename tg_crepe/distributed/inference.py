from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tg_crepe.distributed.communicator import RankCommunicator, Traffic
from tg_crepe.distributed.manifest import ShardError
from tg_crepe.distributed.ring import Ring
from tg_crepe.distributed.shard import Shard
from tg_crepe.distributed.transport import Transport
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.labels import Labels, read_some_labels
from tg_crepe.inference.result import PropagationResult
from tg_crepe.models.base import EnergyModel, check_start
from tg_crepe.solvers.observers import FlowObserver
from tg_crepe.typing import OptTensor


@torch.no_grad()
def propagate(
    model: EnergyModel,
    shard: Shard,
    u0: OptTensor = None,
    observers: Sequence[FlowObserver] = (),
    traffic: Traffic | None = None,
) -> PropagationResult:
    r"""Infers the pseudo-labels of a graph that the processes of ``torch.distributed`` share.

    Every process calls it with its own shard and gets the rows of its own nodes. What
    :meth:`~tg_crepe.EnergyModel.propagate` computes on one machine is computed here, by the same code: the results
    differ by the rounding of sums alone.

    .. code-block:: python

        import torch.distributed as dist
        from tg_crepe import CrepePropagation
        from tg_crepe.distributed import open_shard, propagate

        dist.init_process_group("gloo")
        shard = open_shard("shards", dist.get_rank(), dist.get_world_size())
        result = propagate(CrepePropagation(), shard)
        result.label  # of shard.node_id

    Args:
        model (EnergyModel): The model, with the same options on all ranks.
        shard (Shard): The part of this rank, with ``y`` (and ``mask``).
        u0 (torch.Tensor, optional): A start for iterative models, of shape :obj:`[num_own, num_classes]`, on all ranks
            or on none. (default: :obj:`None`)
        observers (sequence, optional): What looks on while flows run, such as
            :class:`~tg_crepe.distributed.Checkpoints`. (default: nobody)
        traffic (Traffic, optional): What counts the bytes and calls of this rank. (default: nobody looks)

    Returns:
        PropagationResult: With one row for each of ``shard.node_id``.

    Raises:
        ShardError: (a :class:`ValueError`) on all ranks, if something is wrong on one of them.
        LostRankError: (a :class:`ConnectionError`) if a rank is gone or does not answer in time.
    """
    ring = Ring()
    labels = ring.together(lambda: _read(model, shard, u0, ring))
    _check_same(ring, shard, labels, model, u0)
    if int(ring.sum(labels.labelled.sum().cpu())) == 0:
        raise ShardError("'mask' must mark at least one labelled node, got none")

    def read_graph() -> tuple[CanonicalGraph, list[str]]:
        return part_graph(shard, traffic), []

    return model.infer(labels, read_graph, u0, observers)


def part_graph(shard: Shard, traffic: Traffic | None = None, transport: Transport | None = None) -> CanonicalGraph:
    """The graph of a shard, which talks to those of the other ranks.

    Args:
        shard (Shard): The shard of this rank.
        traffic (Traffic, optional): What counts bytes and calls. (default: nobody looks)
        transport (Transport, optional): What carries out the collectives. (default: ``torch.distributed``)
    """
    size = shard.num_own + shard.num_halo
    device = shard.weight.device
    row = torch.repeat_interleave(torch.arange(shard.num_own, device=device), shard.rowptr.long().diff())
    once = (row < shard.col).nonzero().view(-1)  # halo nodes come after all own ones
    key, by_key = torch.sort(row[once] * size + shard.col[once])
    edge_index = torch.stack([key // max(size, 1), key % max(size, 1)])
    number = torch.cat([shard.node_id, shard.halo_id])
    communicator = RankCommunicator(shard.send, shard.recv_counts, number, traffic, transport)
    return CanonicalGraph(edge_index, shard.weight[once[by_key]], shard.num_own, communicator)


def _read(model: EnergyModel, shard: Shard, u0: OptTensor, ring: Ring) -> Labels:
    """The labels of a shard that belongs here."""
    if not model.distributed:
        raise ValueError(f"'model' must be one that several processes can solve, got {model!r}")
    if (shard.rank, shard.world_size) != (ring.rank, ring.world_size):
        raise ValueError(
            f"'shard' must be that of rank {ring.rank} of {ring.world_size}, "
            f"got that of rank {shard.rank} of {shard.world_size}"
        )
    if shard.y is None:
        raise ValueError("'shard.y' must hold the labels, got None")
    if shard.num_classes is None:
        raise ValueError("'shard.num_classes' must be the number of classes of all ranks, got None")
    labels = read_some_labels(shard.y, shard.mask, shard.num_classes, shard.num_own)
    check_start(u0, labels)
    return labels


def _check_same(ring: Ring, shard: Shard, labels: Labels, model: EnergyModel, u0: OptTensor) -> None:
    """All ranks must work on the same problem."""
    own: dict[str, Any] = {
        "the number of nodes": shard.num_nodes,
        "the number of classes": labels.num_classes,
        "multi_label": labels.multi_label,
        "the dtype of the weights": str(shard.weight.dtype),
        "whether there is a start": u0 is not None,
        "the model": type(model).__name__,
        "the options of the model": {name: str(value) for name, value in sorted(vars(model).items())},
    }
    held = ring.gather(own)
    for rank, other in enumerate(held):
        for name, value in held[0].items():
            if other[name] != value:
                raise ShardError(
                    f"{name} must be the same on all ranks, got {value} on rank 0 and {other[name]} on rank {rank}"
                )
    owned = int(ring.sum(torch.tensor(shard.num_own)))
    if owned != shard.num_nodes:
        raise ShardError(f"the shards must own all {shard.num_nodes} nodes, got {owned}")
