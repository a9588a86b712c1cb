from __future__ import annotations

import pytest
import torch

pytest.importorskip("timm", reason="it comes with the extra 'embed'")
pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

import timm
from safetensors.torch import save_file

from tg_crepe.datasets import RandomLabelSplit, load_digits
from tg_crepe.embed import get_encoder
from tg_crepe.runs import RunFolder
from tg_crepe.training import HybridTrainer, TrainingConfig
from tg_crepe.training.pretrained import FeatureDataset, PretrainedBackbone

NAME = "timm:test_resnet"


@pytest.fixture(autouse=True)
def _weights(tmp_path, monkeypatch):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", pretrained=False).state_dict(), tmp_path / "test_resnet.safetensors")
    monkeypatch.setenv("TG_CREPE_MODELS", str(tmp_path))


@pytest.fixture
def dataset():
    from dataclasses import replace

    digits = load_digits()
    return replace(digits, train=digits.train[:60], test=digits.test[:20])


def test_a_frozen_network_is_read_once_and_its_head_learns(dataset, tmp_path, monkeypatch):
    calls = []
    encode = type(get_encoder(NAME)).encode
    monkeypatch.setattr(type(get_encoder(NAME)), "encode", lambda self, x: calls.append(len(x)) or encode(self, x))
    split = RandomLabelSplit(2, unit="per_class", seed=0).draw(dataset)
    config = TrainingConfig(epochs=3, warmup_epochs=1, k=5, batch_size=20)
    trainer = HybridTrainer(dataset, split, NAME, "lgc", config, run=tmp_path / "run")
    read = sum(calls)
    trainer.fit()
    assert sum(calls) == read  # no image goes through the network after the start
    assert read <= len(dataset) + 2  # each of them once, and a blank one to try the size
    assert isinstance(trainer.dataset, FeatureDataset)
    assert sum(p.numel() for p in trainer.model.parameters()) == 10 * (trainer.dataset.images.shape[1] + 1)
    assert 0 <= trainer.final["pseudo_error"] <= 1
    assert RunFolder.open(tmp_path / "run").read_thumbnails()[1].shape[1:] == (1, 8, 8)


def test_a_backbone_that_is_tuned_undoes_the_normalisation_of_the_trainer(dataset):
    encoder = get_encoder(NAME)
    network = PretrainedBackbone(encoder, 10, (0.3,), (0.2,)).eval()
    size, mean, std = encoder.geometry
    grey = torch.full((1, 1, 8, 8), 0.5)
    wanted = (torch.full((3, size, size), 0.5) - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    with torch.no_grad():
        found = network.features((grey - 0.3) / 0.2)
    torch.testing.assert_close(found, encoder.encode([wanted]), rtol=1e-3, atol=1e-4)


def test_tuning_changes_the_body(dataset):
    before = get_encoder(NAME).describe()["weights"]
    split = RandomLabelSplit(1, unit="per_class", seed=0).draw(dataset)
    config = TrainingConfig(epochs=1, warmup_epochs=1, warmup_passes=1, k=5, batch_size=10, fine_tune=True)
    trainer = HybridTrainer(dataset, split, NAME, "none", config).fit()
    from tg_crepe.embed.weights import weights_checksum

    assert isinstance(trainer.model, PretrainedBackbone)
    assert weights_checksum(trainer.model.body.state_dict()) != before


def test_a_model_for_texts_is_no_backbone(dataset, monkeypatch):
    encoder = get_encoder(lambda texts: [[0.0] for _ in texts], kind="texts")
    monkeypatch.setattr("tg_crepe.training.pretrained.get_encoder", lambda name: encoder)
    split = RandomLabelSplit(1, unit="per_class", seed=0).draw(dataset)
    with pytest.raises(ValueError, match="'backbone' must be a network for images"):
        HybridTrainer(dataset, split, "sentence-transformers:x")
