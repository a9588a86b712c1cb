import math

import pytest
import torch
from helpers import clusters, random_graph

from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue
from tg_crepe.inference.rate import screening_rate
from tg_crepe.inference.task import LabelTask


def make_task(graph, labels: int, num_classes: int) -> LabelTask:
    y = torch.arange(graph.num_nodes) % num_classes
    sign = torch.where(
        (torch.arange(graph.num_nodes) < labels).unsqueeze(1), 2.0 * torch.nn.functional.one_hot(y) - 1, 0.0
    )
    return LabelTask(graph, sign.to(graph.edge_weight), False, torch.arange(num_classes), num_classes)


def test_clusters_have_the_rate_of_their_eigenvalue():
    graph, _ = clusters(0)
    expected = cluster_eigenvalue(graph, 3, torch.zeros(150, 3)) * math.sqrt(4)
    assert screening_rate(make_task(graph, 12, 3)) == pytest.approx(expected)


def test_few_labels_on_noise_have_the_rate_of_their_share():
    graph = random_graph(0, 200, density=0.2)
    root = math.sqrt(8 / 200)
    assert screening_rate(make_task(graph, 8, 4)) == pytest.approx(1.6 * root / (1 - root))


def test_many_labels_on_noise_have_the_rate_of_the_eigenvalue_alone():
    graph = random_graph(0, 200, density=0.2)
    expected = cluster_eigenvalue(graph, 4, torch.zeros(200, 4))
    assert expected > 2 * 1.6 * math.sqrt(4 / 200)
    for labels in (100, 150):
        assert screening_rate(make_task(graph, labels, 4)) == pytest.approx(expected)


def test_between_clusters_and_noise_the_reach_is_between_theirs():
    graph, _ = clusters(0)
    rate = cluster_eigenvalue(graph, 75, torch.zeros(150, 75))  # 75 classes: more than the graph has clusters
    excess = rate * math.sqrt(150 / 75) / 1.6 - 1
    task = make_task(graph, 150, 75)
    blur = min(max(excess, 0.0), 1.0)
    assert 0 < blur < 1
    assert 1 / screening_rate(task) == pytest.approx(((1 - blur) / math.sqrt(2) + blur) / rate)


def test_all_labelled_nodes_leave_the_eigenvalue():
    graph, _ = clusters(0)
    expected = cluster_eigenvalue(graph, 3, torch.zeros(150, 3)) * math.sqrt(50)
    assert screening_rate(make_task(graph, 150, 3)) == pytest.approx(expected)
