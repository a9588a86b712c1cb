"""The protocol of the table: splits, hold-out without test labels, and verdicts."""

import pytest
import torch
from helpers import clusters
from shared.splits import Split, choose_labels
from table1.paper import PAPER, suspect, verdict
from table1.sweep import Sweep, deal_folds

from tg_crepe import LGC


def test_split_is_stratified_and_depends_on_the_seed_alone():
    y = torch.tensor([0] * 100 + [1] * 300)
    mask = choose_labels(y, Split("share", 0.1), 3)
    assert mask.equal(choose_labels(y, Split("share", 0.1), 3))
    assert not mask.equal(choose_labels(y, Split("share", 0.1), 4))
    assert torch.bincount(y[mask]).tolist() == [10, 30]
    assert torch.bincount(y[choose_labels(y, Split("count", 5), 0)]).tolist() == [5, 5]
    assert torch.bincount(y[choose_labels(y, Split("share", 0.001), 0)]).tolist() == [1, 1]


def test_split_leaves_something_to_predict():
    with pytest.raises(ValueError, match="'split' must leave"):
        choose_labels(torch.tensor([0, 0, 1, 1]), Split("count", 2), 0)


def test_folds_hide_every_label_of_a_class_with_two():
    y = torch.tensor([0, 0, 0, 0, 1, -1, -1, 2, 2])
    fold = deal_folds(y, 3, torch.Generator().manual_seed(0))
    assert fold[[4, 5, 6]].tolist() == [-1, -1, -1]
    assert torch.bincount(fold[[0, 1, 2, 3, 7, 8]]).tolist() == [2, 2, 2]


def test_sweep_equals_the_model_at_every_value_and_sees_no_other_label():
    graph, y = clusters(0)
    mask = choose_labels(y, Split("count", 4), 0)
    seen = torch.where(mask, y, -1)
    swept = Sweep("lgc", "alpha", (0.99, 0.5))(seen, graph.adjacency, mask, None, seed=0)
    for alpha in (0.99, 0.5):
        assert swept.results[alpha].label.equal(LGC(alpha=alpha).propagate(seen, graph.adjacency, mask).label)
    assert swept.choice in swept.results


def test_one_label_per_class_takes_the_published_value():
    graph, y = clusters(0)
    mask = choose_labels(y, Split("count", 1), 0)
    swept = Sweep("lgc", "alpha", (0.9, 0.99, 0.5))(torch.where(mask, y, -1), graph.adjacency, mask, None, seed=0)
    assert swept.choice == 0.9


def test_cells_that_the_paper_repeats_are_suspect():
    assert suspect("SLP", "30 %")  # mean and deviation of CREPE at 10 %
    assert suspect("PoL", "2 %")  # four deviations of SLP
    assert not suspect("PoL", "20 %")
    assert not suspect("LGC", "1 %")


def test_verdicts():
    paper = {name: figures["1 %"] for name, figures in PAPER.items()}
    assert verdict("LGC", "1 %", paper) == "reproduced"
    lower = {name: (mean - 5, deviation) for name, (mean, deviation) in paper.items()}
    assert verdict("LGC", "1 %", lower) == "ranking reproduced"
    assert verdict("PoL", "1 %", lower) == "paper cell suspect"
    assert verdict("LGC", "1 %", {**lower, "LGC": (40.0, 0.1)}) == "differs"
