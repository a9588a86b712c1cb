import pytest
import torch
from helpers import clusters

from tg_crepe import CrepePropagation
from tg_crepe.graph import canonical_graph
from tg_crepe.inference.label_trust import label_support, unlabelled_mean
from tg_crepe.inference.task import LabelTask


def choose(y: torch.Tensor, count: int) -> torch.Tensor:
    """The first nodes of every class."""
    hot = torch.nn.functional.one_hot(y)
    return ((hot.cumsum(dim=0) <= count) & (hot == 1)).any(dim=1)


def star_task() -> tuple[LabelTask, torch.Tensor]:
    """Nodes 0, 1 and 2 are labelled 0, 1 and 0; 3 and 4 are not. Node 2 has labelled neighbours alone."""
    edge = torch.tensor([[0, 0, 1, 1, 2, 2], [3, 4, 3, 4, 0, 1]])
    graph, _ = canonical_graph(edge, torch.tensor([3.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 5)
    sign = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    task = LabelTask(graph, sign, False, torch.arange(2), 2)
    prob = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.8, 0.2], [0.0, 1.0]]).double()
    return task, prob


def test_mean_is_over_unlabelled_neighbours_alone():
    task, prob = star_task()
    mean, found = unlabelled_mean(task.graph, prob, task.labelled)
    assert found.tolist() == [True, True, False, False, False]
    torch.testing.assert_close(mean[0], (3 * prob[3] + prob[4]) / 4)
    torch.testing.assert_close(mean[1], (prob[3] + prob[4]) / 2)


def test_support_by_hand():
    task, prob = star_task()
    # Both judged labels are supported (0: 0.6 against 0.4, 1: 0.4 against 0.6), two of three labels are of class 0.
    assert label_support(prob, task) == 1
    # Turned round neither is: ten imagined labels of twelve, better than the largest share by half of what is possible.
    assert label_support(prob.flip(1), task) == pytest.approx((10 / 12 - 2 / 3) / (1 - 2 / 3))


def test_support_does_not_depend_on_the_order_of_classes_nor_on_the_scale_of_weights():
    graph, y = clusters(0)
    mask = choose(y, 4)
    prob = torch.rand(y.numel(), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sign = torch.where(mask.unsqueeze(1), 2.0 * torch.nn.functional.one_hot(y, 3) - 1, 0.0)
    task = LabelTask(graph, sign, False, torch.arange(3), 3)
    found = label_support(prob, task)
    assert 0 < found < 1
    order = [2, 0, 1]
    assert label_support(prob[:, order], LabelTask(graph, sign[:, order], False, torch.arange(3), 3)) == found
    scaled = graph.with_weight(1000 * graph.edge_weight)
    assert label_support(prob, LabelTask(scaled, sign, False, torch.arange(3), 3)) == found


def test_labels_without_support_shorten_the_flow():
    graph, y = clusters(0)
    shuffled = y[torch.randperm(y.numel(), generator=torch.Generator().manual_seed(0))]
    lengths = []
    for label in (y, shuffled):
        sign = torch.where(choose(y, 20).unsqueeze(1), 2.0 * torch.nn.functional.one_hot(label, 3) - 1, 0.0)
        task = LabelTask(graph, sign.to(graph.edge_weight), False, torch.arange(3), 3)
        model = CrepePropagation()
        rate = model.rate(task)
        start = model.start(task, rate, torch.full((3,), 1 / 3, dtype=torch.float64))
        lengths.append(sum(model.time_steps(start, rate)))
    assert lengths[1] < 0.2 * lengths[0]
