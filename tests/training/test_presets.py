from __future__ import annotations

from dataclasses import fields

import pytest

from tg_crepe.datasets import DATASETS
from tg_crepe.nn import BACKBONES
from tg_crepe.training import TrainingConfig, get_preset


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", ["paper", "cpu"])
def test_every_data_set_has_both_presets(dataset, name):
    preset = get_preset(dataset, name)
    assert preset.backbone in BACKBONES
    known = {field.name for field in fields(TrainingConfig)} | {"backbone", "labels", "unit", "size"}
    assert preset.from_paper <= known


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "mini_imagenet", "chestxray14", "cbis_ddsm"])
def test_the_paper_preset_has_the_values_of_the_paper(dataset):
    preset = get_preset(dataset, "paper")
    config = preset.config
    assert (config.epochs, config.k, config.learning_rate, config.weight_decay) == (310, 20, 0.05, 2e-4)
    network = {"cifar10": "cnn13", "cifar100": "cnn13"}.get(dataset, "resnet18")
    labels = {"mini_imagenet": 10000, "cifar100": 10000, "cifar10": 4000, "chestxray14": 20, "cbis_ddsm": 40}
    assert (preset.backbone, preset.labels) == (network, labels[dataset])
    for value in ("epochs", "k", "learning_rate", "weight_decay", "backbone", "labels"):
        assert preset.origin(value) == "paper"
    for value in ("pseudo_weight", "batch_size", "momentum", "warmup_epochs", "num_samples"):
        assert preset.origin(value) == "ours"


def test_rand_augment_belongs_to_the_wide_network():
    preset = get_preset("cifar10", "paper_wrn")
    assert (preset.backbone, preset.config.augmentation) == ("wide_resnet", "strong")
    assert preset.origin("augmentation") == "paper"
    assert get_preset("cifar10", "paper").config.augmentation == "weak"
    with pytest.raises(ValueError, match="'name' must be one of 'paper', 'cpu', got 'paper_wrn'"):
        get_preset("digits", "paper_wrn")


def test_the_cpu_preset_claims_no_epochs_of_the_paper():
    preset = get_preset("pneumoniamnist", "cpu")
    assert preset.backbone == "small_cnn"
    assert preset.origin("epochs") == "ours"
    assert get_preset("my own folder", "cpu") == get_preset("image_folder", "cpu")
    assert get_preset("cifar10 (subset)") == get_preset("cifar10_subset") == get_preset("cifar10")
