from __future__ import annotations

import pytest
import torch

pytest.importorskip("torchvision", reason="it comes with the extra 'vision'")

from PIL import Image
from torchvision import models

from tg_crepe.embed import get_encoder


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    monkeypatch.delenv("TG_CREPE_MODELS", raising=False)
    monkeypatch.setattr("tg_crepe.embed.torchvision.answers", lambda url: False)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))


def saved(name: str, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = models.get_model(name, weights=None).eval()
    torch.save(network.state_dict(), tmp_path / f"{name}.pth")
    return network, tmp_path / f"{name}.pth"


@pytest.mark.parametrize(("name", "last"), [("resnet18", "fc"), ("mobilenet_v3_small", "classifier.3")])
def test_features_are_what_the_last_layer_reads(name, last, tmp_path):
    network, path = saved(name, tmp_path)
    seen = []
    network.get_submodule(last).register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    encoder = get_encoder(f"torchvision:{name}", weights=path)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        network(images)
    torch.testing.assert_close(encoder.encode(list(images)), seen[0], rtol=1e-4, atol=1e-4)


def test_transforms_are_those_of_the_weights(tmp_path):
    _, path = saved("resnet18", tmp_path)
    encoder = get_encoder("torchvision:resnet18", weights=path)
    image = Image.effect_noise((300, 260), 60).convert("RGB")
    expected = models.ResNet18_Weights.DEFAULT.transforms()(image)
    torch.testing.assert_close(encoder.prepare(image), expected)
    assert encoder.name == "torchvision:resnet18.IMAGENET1K_V1"
    assert get_encoder("torchvision:resnet18", weights=path, size=64).prepare(image).shape == (3, 64, 64)


def test_weights_come_from_the_cache_of_torch(tmp_path):
    _, path = saved("resnet18", tmp_path)
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    path.rename(tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth")
    assert get_encoder("torchvision:resnet18").describe()["library"] == "torchvision"


def test_a_model_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        get_encoder("torchvision:resnet18")
    for part in ("resnet18-f37072fd.pth", str(tmp_path / "hub"), "https://download.pytorch.org", "--weights FILE"):
        assert part in str(caught.value)


def test_unknown_names_and_weights_are_said(tmp_path):
    with pytest.raises(ValueError, match=r"got 'torchvision:resnet_18'; near it are"):
        get_encoder("torchvision:resnet_18")
    with pytest.raises(ValueError, match=r"must be one of IMAGENET1K_V1, IMAGENET1K_V2, DEFAULT, got 'V9'"):
        get_encoder("torchvision:resnet50.V9")
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="do not fit 'torchvision:resnet18'"):
        get_encoder("torchvision:resnet18", weights=tmp_path / "a.pth")


def test_a_size_that_a_network_does_not_take_is_one_line(tmp_path):
    _, path = saved("densenet121", tmp_path)
    with pytest.raises(ValueError, match=r"'size' must be one that 'torchvision:densenet121.*' takes, got 8") as caught:
        get_encoder("torchvision:densenet121", weights=path, size=8)
    assert "\n" not in str(caught.value)
