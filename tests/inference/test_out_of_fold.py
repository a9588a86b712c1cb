import torch

from tg_crepe.inference.out_of_fold import deal_folds, out_of_fold


def labels(counts=(7, 1, 12), num_nodes: int = 60):
    y = torch.arange(num_nodes) % 3
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    for c, count in enumerate(counts):
        mask[(y == c).nonzero().view(-1)[:count]] = True
    return y, mask


def test_every_class_is_dealt_evenly_and_a_single_label_never():
    y, mask = labels()
    part = deal_folds(y, mask, 5, seed=0)
    assert torch.equal(part >= 0, mask & (y != 1))
    assert torch.bincount(part[mask & (y == 0)]).tolist() == [2, 2, 1, 1, 1]
    assert torch.bincount(part[mask & (y == 2)]).tolist() == [3, 3, 2, 2, 2]


def test_the_seed_alone_decides_the_order():
    y, mask = labels()
    torch.manual_seed(1)
    one = deal_folds(y, mask, 5, seed=3)
    torch.manual_seed(2)
    assert torch.equal(one, deal_folds(y, mask, 5, seed=3))
    assert not torch.equal(one, deal_folds(y, mask, 5, seed=4))


def test_labels_outside_the_mask_do_not_matter():
    y, mask = labels()
    assert torch.equal(deal_folds(y, mask, 3, 0), deal_folds(torch.where(mask, y, 2 - y), mask, 3, 0))


def test_a_label_gets_the_word_of_the_network_without_it():
    y, mask = labels()
    part = deal_folds(y, mask, 3, seed=0)
    prob = torch.arange(4.0).view(4, 1, 1).expand(4, 60, 3)  # network k says k
    evidence = out_of_fold(prob, part, mask)
    left = part >= 0
    assert torch.equal(evidence[left], part[left].float().unsqueeze(1).expand(-1, 3))
    assert bool((evidence[~mask] == 1.5).all())
    assert bool(evidence[mask & ~left].isnan().all())
    assert torch.equal(prob, torch.arange(4.0).view(4, 1, 1).expand(4, 60, 3))
