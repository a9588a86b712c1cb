import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.datasets import ImageDataset, LabelSplit, RandomLabelSplit


def make(targets, train=None, num_classes=None):
    multi_label = targets.dim() == 2
    count = len(targets)
    num_classes = num_classes or (targets.size(1) if multi_label else int(targets.max()) + 1)
    return ImageDataset(
        name="made",
        images=torch.zeros(count, 1, 1, 1, dtype=torch.uint8),
        targets=targets,
        train=torch.arange(count) if train is None else train,
        test=torch.empty(0, dtype=torch.long),
        class_names=tuple(map(str, range(num_classes))),
        ids=tuple(map(str, range(count))),
        multi_label=multi_label,
    )


BALANCED = torch.arange(200) % 4


@pytest.mark.parametrize(("labels", "unit", "expected"), [(40, "total", 10), (7, "per_class", 7), (12, "percent", 6)])
def test_balanced_classes_get_equal_shares(labels, unit, expected):
    split = RandomLabelSplit(labels, unit).draw(make(BALANCED))
    assert BALANCED[split.train_mask].bincount().tolist() == [expected] * 4


def test_the_seed_decides():
    masks = [RandomLabelSplit(40, seed=seed).draw(make(BALANCED)).train_mask for seed in (0, 0, 1)]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_the_mask_is_over_the_training_images():
    train = torch.arange(199, 99, -1)
    dataset = make(BALANCED, train)
    split = RandomLabelSplit(3, "per_class").draw(dataset)
    assert split.train_mask.shape == (100,)
    assert dataset.targets[dataset.train[split.train_mask]].bincount().tolist() == [3] * 4


@given(st.lists(st.integers(1, 60), min_size=2, max_size=8), st.data())
def test_shares_follow_the_classes_and_no_class_is_without_label(counts, data):
    targets = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    total = data.draw(st.integers(len(counts), sum(counts)))
    chosen = targets[RandomLabelSplit(total).draw(make(targets)).train_mask].bincount(minlength=len(counts))
    assert int(chosen.sum()) == total
    assert int(chosen.min()) >= 1
    exact = torch.tensor(counts) * total / sum(counts)
    if float(exact.min()) >= 1:
        assert float((chosen - exact).abs().max()) < 1


def test_a_small_per_cent_still_labels_every_class():
    split = RandomLabelSplit(0.1, "percent").draw(make(BALANCED))
    assert BALANCED[split.train_mask].bincount().tolist() == [1] * 4


def test_unknown_labels_are_never_drawn():
    targets = torch.where(torch.arange(200) < 100, -1, BALANCED)
    split = RandomLabelSplit(50, "percent").draw(make(targets))
    assert int(split.train_mask.sum()) == 50
    assert not bool(split.train_mask[:100].any())


def test_every_finding_has_a_positive():
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(1000, 14, generator=generator) < 0.1).long()
    targets[:, 13] = 0
    targets[777, 13] = 1
    for seed in range(5):
        split = RandomLabelSplit(2, "percent", seed=seed).draw(make(targets))
        assert int(split.train_mask.sum()) == 20
        assert bool((targets[split.train_mask].sum(dim=0) > 0).all())


def test_findings_without_any_positive_and_too_few_labels_are_no_obstacle():
    targets = torch.eye(6, dtype=torch.long)
    targets[5, 5] = 0
    assert int(RandomLabelSplit(3).draw(make(targets)).train_mask.sum()) == 3
    assert bool(RandomLabelSplit(6).draw(make(targets)).train_mask.all())


def test_a_saved_split_is_loaded(tmp_path):
    dataset = make(BALANCED)
    split = RandomLabelSplit(12.5, "percent", seed=3).draw(dataset)
    split.save(tmp_path / "split.json")
    loaded = LabelSplit.load(tmp_path / "split.json", dataset)
    assert torch.equal(loaded.train_mask, split.train_mask)
    assert (loaded.settings, loaded.dataset, loaded.checksum) == (split.settings, "made", split.checksum)
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


def test_a_split_does_not_depend_on_labels_once_it_is_saved(tmp_path):
    dataset = make(BALANCED)
    split = RandomLabelSplit(8).draw(dataset)
    split.save(tmp_path / "split.json")
    poisoned = replace(dataset, targets=torch.zeros(200, dtype=torch.long))
    assert torch.equal(LabelSplit.load(tmp_path / "split.json", poisoned).train_mask, split.train_mask)


def test_a_split_of_another_data_set_is_refused(tmp_path):
    dataset = make(BALANCED)
    RandomLabelSplit(8).draw(dataset).save(tmp_path / "split.json")
    for other in (make(BALANCED[:100]), replace(dataset, train=torch.arange(199, -1, -1))):
        with pytest.raises(ValueError, match=r"split.json' cannot be used: it was drawn on the 200 training images"):
            LabelSplit.load(tmp_path / "split.json", other)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"labelled"', '"labeled"'),
        lambda text: json.dumps({**json.loads(text), "labelled": [0, 200]}),
        lambda text: json.dumps({**json.loads(text), "labelled": [0.5]}),
        lambda text: json.dumps({**json.loads(text), "labelled": "all"}),
        lambda text: json.dumps({**json.loads(text), "settings": {"labels": 8, "unit": "dozen"}}),
    ],
)
def test_a_damaged_split_is_named(tmp_path, change):
    path = tmp_path / "split.json"
    RandomLabelSplit(8).draw(make(BALANCED)).save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=r"split.json' cannot be used"):
        LabelSplit.load(path, make(BALANCED))


def test_a_missing_split_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"split.json' is missing"):
        LabelSplit.load(tmp_path / "split.json", make(BALANCED))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": 0}, "'labels' must be an integer >= 1, got 0"),
        ({"labels": 2.5}, "'labels' must be an integer >= 1, got 2.5"),
        ({"labels": 101, "unit": "percent"}, r"'labels' must be in \(0, 100\] per cent"),
        ({"labels": float("nan"), "unit": "percent"}, "'labels' must be a finite number"),
        ({"labels": 5, "unit": "dozen"}, "'unit' must be one of 'total'"),
        ({"labels": 5, "seed": -1}, "'seed' must be an integer >= 0"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        RandomLabelSplit(**options)


@pytest.mark.parametrize(
    ("split", "targets", "message"),
    [
        (RandomLabelSplit(201), BALANCED, "at most the 200 training images with a known label, got 201"),
        (RandomLabelSplit(3), BALANCED, "at least one for each of 4 classes, got 3"),
        (RandomLabelSplit(51, "per_class"), BALANCED, "class 0 has 50 training images"),
        (RandomLabelSplit(1, "per_class"), torch.eye(3, dtype=torch.long), "'unit' must be 'total' or 'percent'"),
        (RandomLabelSplit(1), torch.full((3,), -1), "'made' has none"),
    ],
)
def test_draws_that_are_impossible_are_explained(split, targets, message):
    with pytest.raises(ValueError, match=message):
        split.draw(make(targets, num_classes=3 if targets.dim() == 2 else 4))
