from __future__ import annotations

import torch

from tg_crepe.training.alignment import align_classes


def test_the_mean_becomes_the_wanted_distribution():
    prob = torch.rand(200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(dim=1)
    share = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    moved = align_classes(prob, share)
    torch.testing.assert_close(moved.mean(dim=0), share, atol=1e-6, rtol=0)
    torch.testing.assert_close(moved.sum(dim=1), torch.ones(200, dtype=torch.float64))
    # Every row is scaled by the same multipliers: odds within a column keep their ratio.
    odds = (moved / prob) / (moved / prob)[:, :1]
    torch.testing.assert_close(odds, odds[:1].expand_as(odds))


def test_what_is_aligned_stays():
    prob = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert torch.equal(align_classes(prob, torch.tensor([0.5, 0.5])), prob)


def test_rows_that_cannot_move_stay():
    prob = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    moved = align_classes(prob, torch.tensor([0.0, 1.0]))
    assert torch.equal(moved[0], prob[0])
    assert torch.isfinite(moved).all()
    assert align_classes(prob[:0], torch.tensor([0.5, 0.5])).shape == (0, 2)
