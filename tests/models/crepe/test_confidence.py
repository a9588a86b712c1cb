import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import CrepePropagation, knn_graph
from tg_crepe.models.crepe.confidence import share_doubt


def made_up(seed: int, nodes: int = 50, classes: int = 4):
    generator = torch.Generator().manual_seed(seed)
    pooled, others, diffused = torch.randn(3, nodes, classes, generator=generator, dtype=torch.float64)
    return 3 * pooled, others, torch.softmax(2 * diffused, dim=1)


@given(st.integers(0, 10_000))
def test_labels_stay_and_rows_are_probabilities(seed):
    pooled, others, diffused = made_up(seed)
    prob = share_doubt(pooled, others, diffused).exp()
    assert torch.equal(prob.argmax(dim=1), pooled.argmax(dim=1))
    torch.testing.assert_close(prob.sum(dim=1), torch.ones(50, dtype=torch.float64))


def test_shares_are_the_mean_of_both_where_they_agree_and_change_places_where_they_do_not():
    pooled = torch.tensor([[2.0, 0.0, 0.0], [2.0, 0.0, 0.0]], dtype=torch.float64)
    diffused = torch.tensor([[0.8, 0.1, 0.1], [0.02, 0.9, 0.08]], dtype=torch.float64)
    prob = share_doubt(pooled, 0.0, diffused).exp().numpy()
    exponential = np.exp(pooled.numpy())
    mean = (exponential / exponential.sum(axis=1, keepdims=True) + diffused.numpy()) / 2
    np.testing.assert_allclose(prob[0], mean[0], atol=1e-3)  # but for the thousandth that opinions leave to all
    np.testing.assert_allclose(prob[1], mean[1][[1, 0, 2]], atol=1e-3)


def test_certainty_falls_towards_the_border_of_two_classes():
    """Two overlapping clouds in one dimension: who is far from the border is right more often, and must be surer."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 2
    x = torch.randn(600, 1, generator=generator) + 3.0 * y.unsqueeze(1)
    mask = torch.arange(600) < 20
    result = CrepePropagation().propagate(y, *_graph(x, mask))
    distance = (x.view(-1) - 1.5).abs()
    far, near = result.certainty[~mask & (distance > 1.5)], result.certainty[~mask & (distance < 0.3)]
    assert float(near.mean()) < 0.6 * float(far.mean())
    wrong, free = result.label != y, (~mask).nonzero().view(-1)
    doubtful = free[result.certainty[free].argsort()[: free.numel() // 5]]
    assert int(wrong[doubtful].sum()) > 0.6 * int(wrong[free].sum())


def _graph(x: torch.Tensor, mask: torch.Tensor):
    edge_index, edge_weight = knn_graph(x, 10, metric="euclidean")
    return edge_index, mask, edge_weight
