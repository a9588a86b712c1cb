import math

import pytest
import torch
from helpers import clusters, random_graph

from tg_crepe.graph.clock import clock_rate
from tg_crepe.models.rate import screening_rate
from tg_crepe.models.task import LabelTask


def make_task(graph, labels: int, num_classes: int) -> LabelTask:
    y = torch.arange(graph.num_nodes) % num_classes
    sign = torch.where(
        (torch.arange(graph.num_nodes) < labels).unsqueeze(1), 2.0 * torch.nn.functional.one_hot(y) - 1, 0.0
    )
    return LabelTask(graph, sign.to(graph.edge_weight), False, torch.arange(num_classes), num_classes)


def test_clusters_have_the_rate_of_their_eigenvalue():
    graph, _ = clusters(0)
    expected = clock_rate(graph, 3, torch.zeros(150, 3)) * math.sqrt(4)
    assert screening_rate(make_task(graph, 12, 3)) == pytest.approx(expected)


def test_noise_has_the_rate_of_the_share_of_labels():
    graph = random_graph(0, 200, density=0.2)
    for labels in (8, 50):
        root = math.sqrt(labels / 200)
        assert screening_rate(make_task(graph, labels, 4)) == pytest.approx(1.6 * root / (1 - root))


def test_all_labelled_nodes_leave_the_eigenvalue():
    graph = random_graph(0, 40, density=0.3)
    expected = clock_rate(graph, 4, torch.zeros(40, 4)) * math.sqrt(10)
    assert screening_rate(make_task(graph, 40, 4)) == pytest.approx(expected)
