from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

pytest.importorskip("timm", reason="it comes with the extra 'embed'")

import timm
from embed_inputs import write_images
from safetensors.torch import save_file
from timm.data import create_transform, resolve_model_data_config

from tg_crepe.embed import embed, get_encoder, open_source
from tg_crepe.embed.packages import PACKAGES

#: The smallest network of timm.
NAME = "test_resnet"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    monkeypatch.delenv("TG_CREPE_MODELS", raising=False)
    monkeypatch.setattr("tg_crepe.embed.timm.answers", lambda url: False)


@pytest.fixture
def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return timm.create_model(NAME, pretrained=False).eval()


@pytest.fixture
def weights(network, tmp_path):
    save_file(network.state_dict(), tmp_path / f"{NAME}.safetensors")
    return tmp_path / f"{NAME}.safetensors"


def test_features_are_those_of_a_bare_loop(network, weights, tmp_path):
    write_images(tmp_path / "images", 7, side=20)
    found = embed(tmp_path / "images", f"timm:{NAME}", weights=weights, batch_size=4)
    transform = create_transform(**resolve_model_data_config(network), is_training=False)
    source = open_source(tmp_path / "images")
    batch = torch.stack([transform(source.read(place)) for place in range(7)])
    with torch.inference_mode():
        expected = network.forward_head(network.forward_features(batch), pre_logits=True)
    np.testing.assert_allclose(found.x, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert found.made["encoder"]["preprocessing"]["input_size"] == [3, 160, 160]
    assert found.made["encoder"]["versions"]["timm"] == timm.__version__


def test_weights_come_from_the_folder_of_models(weights, monkeypatch):
    monkeypatch.setenv("TG_CREPE_MODELS", str(weights.parent))
    by_folder = get_encoder(f"timm:{NAME}")
    by_file = get_encoder(f"timm:{NAME}", weights=weights)
    assert by_folder.describe() == by_file.describe()


def test_a_folder_as_the_hub_has_it_is_a_model(network, weights, tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    shutil.copy(weights, folder / "model.safetensors")
    config = {"architecture": NAME, "num_classes": 1000, "pretrained_cfg": {"input_size": [3, 96, 96]}}
    (folder / "config.json").write_text(json.dumps(config))
    encoder = get_encoder(folder)
    assert encoder.name == "timm:my-model"
    assert encoder.describe()["weights"] == get_encoder(f"timm:{NAME}", weights=weights).describe()["weights"]
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold model\.safetensors or"):
        get_encoder(folder)


def test_size_is_that_of_the_images_the_network_sees(weights):
    encoder = get_encoder(f"timm:{NAME}", weights=weights, size=64)
    assert encoder.describe()["preprocessing"]["input_size"] == [3, 64, 64]
    from PIL import Image

    assert encoder.prepare(Image.new("RGB", (90, 70))).shape == (3, 64, 64)


def test_another_network_has_other_checksum_of_weights(weights, tmp_path):
    other = timm.create_model(NAME, pretrained=False)
    torch.save(other.state_dict(), tmp_path / "other.pth")
    first, second = (get_encoder(f"timm:{NAME}", weights=path) for path in (weights, tmp_path / "other.pth"))
    assert first.describe()["weights"] != second.describe()["weights"]


def test_weights_of_a_network_with_other_classes_or_none_fit(network, weights, tmp_path):
    expected = get_encoder(f"timm:{NAME}", weights=weights).describe()["weights"]
    tensors = {name: value for name, value in network.state_dict().items() if not name.startswith("fc.")}
    torch.save(tensors, tmp_path / "body.pth")
    fine_tuned = {**tensors, "fc.weight": torch.zeros(7, network.num_features), "fc.bias": torch.zeros(7)}
    torch.save(fine_tuned, tmp_path / "seven.pth")
    for name in ("body.pth", "seven.pth"):
        assert get_encoder(f"timm:{NAME}", weights=tmp_path / name).describe()["weights"] == expected


def test_weights_of_another_network_do_not_fit(tmp_path):
    torch.save({"a": torch.ones(3)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"a\.pth' cannot be used: its weights do not fit 'timm:test_resnet'"):
        get_encoder(f"timm:{NAME}", weights=tmp_path / "a.pth")


def test_a_model_that_is_not_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("tg_crepe.embed.timm.kept_file", lambda repo, names: None)
    with pytest.raises(FileNotFoundError) as caught:
        get_encoder("timm:resnet18.a1_in1k")
    line = str(caught.value)
    for part in ("'timm:resnet18.a1_in1k' is not here", "timm/resnet18.a1_in1k", "TG_CREPE_MODELS", "--weights FILE"):
        assert part in line
    assert "\n" not in line


def test_an_unknown_name_is_told_from_a_missing_model():
    with pytest.raises(ValueError, match=r"got 'timm:resnet_18'.*near it are"):
        get_encoder("timm:resnet_18")
    with pytest.raises(ValueError, match=r"that timm can make|timm\.list_models"):
        get_encoder("timm:resnet18.no_such_tag")


def test_bfloat16_is_close_to_float32(weights, tmp_path):
    write_images(tmp_path / "images", 3)
    exact, rough = (
        embed(tmp_path / "images", f"timm:{NAME}", weights=weights, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert exact.made["precision"] == "float32"
    assert rough.made["precision"] == "bfloat16"
    assert 0 < np.abs(exact.x - rough.x).max() < 0.05 * np.abs(exact.x).max()


def test_the_offline_package_gives_the_same_features_as_its_own_code():
    package = PACKAGES["timm:tf_efficientnet_lite0"]
    own = pytest.importorskip("efficientnet_lite_pytorch", reason="stand-in: pip install efficientnet-lite-pytorch")
    if package.path is None:
        pytest.skip(f"stand-in: pip install {package.pip}")
    encoder = get_encoder("timm:tf_efficientnet_lite0", size=64)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    network = own.EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(package.path, weights_only=True))
    with torch.inference_mode():
        expected = network.extract_features(images).mean(dim=(2, 3))
    assert encoder.encode(list(images)).shape == (2, 1280)
    torch.testing.assert_close(encoder.encode(list(images)), expected, rtol=1e-3, atol=1e-3)
