from __future__ import annotations

import pytest
import torch
from helpers import random_graph
from rank_threads import ThreadTransport, run_threads

from tg_crepe.distributed.inference import part_graph
from tg_crepe.distributed.shard import cut_shard
from tg_crepe.graph.sparse import RowMatrix, SharedMatrix, normalised_adjacency


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 25, 31, 32, 33, 40, 64, 71, 150])
def test_products_of_any_width_agree_with_dense_algebra(columns, dtype):
    graph = random_graph(1, 60, density=0.2)
    matrix = normalised_adjacency(graph).to(dtype)
    generator = torch.Generator().manual_seed(columns)
    x, add = torch.randn(2, 60, columns, generator=generator, dtype=dtype)
    own, dense = RowMatrix(matrix), matrix.to_dense().double()
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-13}
    torch.testing.assert_close(own.addmm(None, x, 0.0, 1.0).double(), dense @ x.double(), **close)
    found = own.addmm(add, x, -0.5, 3.0)
    torch.testing.assert_close(found.double(), 3 * (dense @ x.double()) - 0.5 * add.double(), **close)
    spoilt = torch.full_like(add, torch.nan)  # what counts nothing is not read
    torch.testing.assert_close(own.addmm(spoilt, x, 0.0, 3.0).double(), 3 * (dense @ x.double()), **close)


@pytest.mark.parametrize("columns", [1, 10, 33])
def test_products_are_the_same_on_one_and_two_threads_and_in_any_company(columns):
    graph = random_graph(2, 300, density=0.5)
    matrix = normalised_adjacency(graph)
    x = torch.randn(300, columns, generator=torch.Generator().manual_seed(0), dtype=matrix.dtype)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            own = RowMatrix(matrix)
            own._chunks[columns] = [0, 100, 201, 300]
            found.append(own.addmm(x, x, 1.0, -0.9))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    # A column has the bits that it has alone.
    alone = [RowMatrix(matrix).addmm(own, own, 1.0, -0.9) for own in x.unsqueeze(-1).unbind(1)]
    assert torch.equal(torch.cat(alone, dim=1), found[0])


def test_products_of_transposed_and_of_graph_tensors():
    graph = random_graph(3, 30, density=0.3)
    own, dense = RowMatrix(normalised_adjacency(graph)), normalised_adjacency(graph).to_dense()
    x = torch.randn(4, 30, generator=torch.Generator().manual_seed(0), dtype=dense.dtype, requires_grad=True).t()
    with torch.no_grad():
        torch.testing.assert_close(own.addmm(x, x, 1.0, 1.0), x + dense @ x)
        torch.testing.assert_close(own.addmm(None, x[:, 0], 0.0, 1.0), dense @ x[:, 0])


def test_what_is_added_may_be_of_another_type_or_one_row_for_all():
    graph = random_graph(0, 30, density=0.2)
    graph = graph.with_weight(graph.edge_weight.float())
    x, add = torch.randn(30, 5), torch.randn(1, 5)
    expected = add + 2 * normalised_adjacency(graph).to_dense() @ x
    torch.testing.assert_close(SharedMatrix(normalised_adjacency(graph), graph).addmm(add, x, alpha=2.0), expected)
    mixed = SharedMatrix(normalised_adjacency(graph), graph).addmm(add.double().expand(30, 5), x, alpha=2.0)
    torch.testing.assert_close(mixed, expected, check_dtype=False)
