import pytest
import torch
import torch_geometric.typing
from torch import nn
from torch_geometric.data import Data

from tg_crepe.training import neighbor_batches
from tg_crepe.training.node_network import NodeNetwork


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 3))

    def forward(self, x, edge_index):
        return x @ self.weight


def make(loader=None, epochs: int = 1) -> NodeNetwork:
    x = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    data = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))
    return NodeNetwork(Linear(), data, epochs, lambda net: torch.optim.SGD(net.parameters(), 0.1), loader)


def test_a_step_follows_the_gradient_of_the_weighted_cross_entropy():
    runner, target = make(), torch.rand(10, 3, generator=torch.Generator().manual_seed(1))
    trained = runner.train(target, seed=0)
    gradient = runner.data.x.t() @ (target.sum(dim=1, keepdim=True) / 3 - target)  # softmax is 1/3 at weights 0
    torch.testing.assert_close(trained.weight, -0.1 * gradient)
    assert not bool(runner.network.weight.any())  # the given network is copied


def test_batches_of_equal_size_have_the_gradient_of_all_nodes_in_the_mean():
    halves = [torch.arange(5), torch.arange(5, 10)]
    target, steps = torch.rand(10, 3, generator=torch.Generator().manual_seed(1)), []
    whole = make().train(target, 0).weight
    for half in halves:
        steps.append(make(lambda data, half=half: [data.subgraph(half)]).train(target, 0).weight)
    torch.testing.assert_close(sum(steps) / 2, whole)


def test_only_the_first_nodes_of_a_sampled_batch_are_learned_and_predicted():
    def sampled(data):
        for part in torch.arange(10).split(5):
            order = torch.cat([part, (part + 5) % 10])
            batch = data.subgraph(order)
            batch.x, batch.n_id, batch.batch_size = data.x[order], order, 5
            yield batch

    target = torch.rand(10, 3, generator=torch.Generator().manual_seed(1))
    runner, plain = (
        make(sampled, epochs=3),
        make(lambda d: [d.subgraph(p) for p in torch.arange(10).split(5)], epochs=3),
    )
    one, other = runner.train(target, 0), plain.train(target, 0)
    torch.testing.assert_close(one.weight, other.weight)
    torch.testing.assert_close(runner.predict(one), (runner.data.x @ one.weight).softmax(dim=1).detach())


def test_weights_that_are_not_finite_are_told():
    runner = make()
    with pytest.raises(FloatingPointError, match="a weight of the network is not finite"):
        runner.train(torch.full((10, 3), torch.inf), 0)


def test_sampled_neighbours_without_their_package_name_it_and_the_way_around(monkeypatch):
    monkeypatch.setattr(torch_geometric.typing, "WITH_PYG_LIB", False)
    monkeypatch.setattr(torch_geometric.typing, "WITH_TORCH_SPARSE", False)
    with pytest.raises(ImportError, match=r"'pyg-lib' or 'torch-sparse', and neither is installed.*RandomNodeLoader"):
        neighbor_batches()


def test_sampled_neighbours_are_batches_of_all_nodes():
    if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
        pytest.skip("NeighborLoader needs pyg-lib or torch-sparse")
    runner = make(neighbor_batches(batch_size=4))
    assert runner.predict(runner.train(torch.ones(10, 3), 0)).shape == (10, 3)


def test_a_loader_that_shuffles_draws_nothing_from_the_users_generator():
    def shuffled(data):
        return [data.subgraph(part) for part in torch.randperm(10).split(5)]

    state = torch.get_rng_state()
    runner = make(shuffled)
    runner.predict(runner.train(torch.rand(10, 3, generator=torch.Generator().manual_seed(1)), 0))
    assert torch.equal(torch.get_rng_state(), state)
