from __future__ import annotations

import torch

from tg_crepe.distributed.communicator import RankCommunicator
from tg_crepe.distributed.shard import Shard
from tg_crepe.distributed.traffic import Traffic
from tg_crepe.distributed.transport import Transport
from tg_crepe.graph.canonical import CanonicalGraph


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
