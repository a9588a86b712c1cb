import pytest
import torch
from helpers import random_graph

from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import check_volume, resolve_volume


def make_task(multi_label: bool = False) -> LabelTask:
    sign = torch.zeros(12, 2)
    sign[:3] = torch.tensor([1.0, -1.0])
    sign[3] = torch.tensor([-1.0, 1.0])
    if multi_label:
        sign[0, 1] = 0
    return LabelTask(random_graph(0), sign, multi_label, torch.tensor([0, 2]), 3)


def resolved(task, volume):
    return resolve_volume("class_volume", volume, task)


def test_volumes_from_label_counts_are_smoothed():
    assert resolved(make_task(), "labels").tolist() == [8 / 14, 6 / 14]
    torch.testing.assert_close(resolved(make_task(True), "labels"), torch.tensor([8 / 14, 6 / 13]).double())


def test_uniform_volumes():
    assert resolved(make_task(), "uniform").tolist() == [0.5, 0.5]
    assert resolved(make_task(True), "uniform").tolist() == [0.5, 0.5]


def test_given_volumes_are_scaled_over_the_classes_that_have_labels():
    assert resolved(make_task(), torch.tensor([3.0, 5.0, 1.0])).tolist() == [0.75, 0.25]
    assert resolved(make_task(True), torch.tensor([0.25, 0.5, 0.125])).tolist() == [0.25, 0.125]


def test_bad_volumes_are_refused():
    with pytest.raises(ValueError, match="'class_volume' must hold one number for each of the 3 classes, got 2"):
        resolved(make_task(), torch.ones(2))
    with pytest.raises(ValueError, match="'class_volume' of a finding must lie below 1"):
        resolved(make_task(True), torch.tensor([0.2, 0.2, 1.0]))
    with pytest.raises(ValueError, match="'class_volume' must be one of 'labels', 'uniform', got 'equal'"):
        check_volume("class_volume", "equal")
    for bad in (torch.tensor([0.0, 1.0]), torch.tensor([float("nan"), 1.0]), torch.ones(2, 2)):
        with pytest.raises(ValueError, match="'class_volume' must hold one number > 0 per class"):
            check_volume("class_volume", bad)
