from __future__ import annotations

import pytest
import torch
from helpers import random_graph
from rank_threads import ThreadTransport, run_threads

from tg_crepe.distributed.inference import part_graph
from tg_crepe.distributed.shard import cut_shard
from tg_crepe.graph.sparse import SharedMatrix, normalised_adjacency


def shared_products(graph, owner, x, ordered: bool, product):
    """What ``product`` makes of the matrix and the rows of every rank, put together."""
    world_size = int(owner.max()) + 1

    def job(transport: ThreadTransport):
        part = part_graph(cut_shard(graph, owner, transport.rank, world_size), transport=transport)
        order = part.local_order() if ordered else None
        part = part if order is None else part.reorder(order)
        own = part.communicator.number[: part.num_nodes]
        return own, product(SharedMatrix(normalised_adjacency(part), part), x[own])

    whole = torch.empty_like(x)
    for own, found in run_threads(world_size, job):
        whole[own] = found
    return whole


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 7)])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("world_size", [2, 3])
def test_products_on_ranks_agree_with_dense_algebra(world_size, ordered, shape):
    graph = random_graph(world_size, shape[0], density=0.1)
    generator = torch.Generator().manual_seed(0)
    owner = torch.randint(world_size, shape[:1], generator=generator)
    x = torch.randn(shape, generator=generator, dtype=graph.edge_weight.dtype)
    dense = normalised_adjacency(graph).to_dense()
    found = shared_products(graph, owner, x, ordered, lambda matrix, own: matrix @ own)
    torch.testing.assert_close(found, dense @ x)
    found = shared_products(
        graph, owner, x, ordered, lambda matrix, own: matrix.addmm(own + 1, own, beta=0.5, alpha=-3.0)
    )
    torch.testing.assert_close(found, 0.5 * (x + 1) - 3 * (dense @ x))


def test_a_row_is_summed_as_without_ranks():
    graph = random_graph(0, 200, density=0.1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=generator, dtype=graph.edge_weight.dtype)
    owner = torch.arange(200) // 100
    expected = SharedMatrix(normalised_adjacency(graph), graph) @ x
    assert torch.equal(shared_products(graph, owner, x, True, lambda matrix, own: matrix @ own), expected)


def test_a_rank_may_have_no_node():
    graph = random_graph(0, 30, density=0.2)
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=graph.edge_weight.dtype)
    owner = torch.where(torch.arange(30) < 15, 0, 2)  # nobody is on rank 1
    found = shared_products(graph, owner, x, True, lambda matrix, own: matrix @ own)
    torch.testing.assert_close(found, normalised_adjacency(graph).to_dense() @ x)
