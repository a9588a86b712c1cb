import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency
from small_graphs import disjoint, from_dense

from tg_crepe.training.graph_evidence import EvidencePool, diffuse_evidence


def random_prob(num_nodes: int, seed: int = 0, *batch: int):
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(*batch, num_nodes, 3, generator=generator, dtype=torch.float64), dim=-1)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_evidence_is_diffused_as_the_dense_inverse_says(alpha):
    graph, y = clusters(0)
    mask, prob = torch.arange(150) < 12, random_prob(150)
    found = diffuse_evidence(prob, y, mask, graph, alpha)
    w = dense_adjacency(graph)
    root = np.sqrt(w.sum(axis=1))
    source = np.where(mask[:, None], np.eye(3)[y], prob)
    expected = np.linalg.solve(np.eye(150) - alpha * w / np.outer(root, root), source)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-3)


def test_a_node_without_edges_keeps_its_evidence_and_inputs_stay():
    graph, y = clusters(0, 40)
    graph = disjoint([graph, from_dense(np.zeros((1, 1)))])
    prob, y = random_prob(41), torch.cat([y, torch.tensor([0])])
    before = prob.clone()
    found = diffuse_evidence(prob, y, torch.zeros(41, dtype=torch.bool), graph, 0.8)
    torch.testing.assert_close(found[40], prob[40])
    torch.testing.assert_close(found.sum(dim=1), torch.ones(41, dtype=torch.float64))
    assert torch.equal(prob, before)


@pytest.mark.parametrize("place", [0, 1])
def test_labels_trust_the_opinion_that_is_right_and_not_the_noise(place):
    y = torch.arange(300) % 3
    said = torch.where(torch.arange(300) % 5 == 0, (y + 1) % 3, y)  # one of five is wrong
    good, noise = 0.6 * torch.eye(3, dtype=torch.float64)[said] + 0.4 * random_prob(300), random_prob(300, 1)
    trust = EvidencePool.fit(torch.stack([good, noise] if place == 0 else [noise, good]), y).trust
    assert float(trust[1 - place]) < 0.2 < float(trust[place])


def test_a_few_labels_find_the_exponents_of_least_loss():
    opinions, y = random_prob(40, 0, 2), torch.arange(40) % 3
    trust = EvidencePool.fit(opinions, y).trust

    def loss(one: float, other: float) -> float:
        pooled = torch.softmax(one * opinions[0].log() + other * opinions[1].log(), dim=1)
        return -float(pooled[torch.arange(40), y].log().sum()) + 0.05 * (one**2 + (other - 1) ** 2)

    grid = np.linspace(0, 2, 81)
    best = min((loss(one, other), one, other) for one in grid for other in grid)
    np.testing.assert_allclose(trust, best[1:], atol=0.03)


def test_without_labels_the_last_opinion_which_has_heard_the_others_has_the_word():
    opinions = random_prob(20, 0, 2)
    pool = EvidencePool.fit(opinions[:, :0], torch.empty(0, dtype=torch.long))
    torch.testing.assert_close(pool(opinions), opinions[1], atol=2e-3, rtol=0)
