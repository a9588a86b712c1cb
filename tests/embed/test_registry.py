from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import colour_encoder, mean_colour

from tg_crepe.embed import DEFAULT_MODELS, ENCODERS, embed, get_encoder
from tg_crepe.embed.registry import is_model_name


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(x).mean(dim=(2, 3))


def test_an_encoder_is_returned_as_it_is():
    encoder = colour_encoder()
    assert get_encoder(encoder) is encoder


def test_options_do_not_go_with_an_encoder():
    with pytest.raises(ValueError, match="'size' must be given when the encoder is made"):
        get_encoder(colour_encoder(), size=64)


def test_a_batch_goes_where_the_network_is():
    seen = []

    class Watched(Pooled):
        def forward(self, x):
            seen.append((x.device.type, self.norm.weight.device.type))
            return super().forward(x)

    encoder = get_encoder(Watched(), size=8)
    # A device without numbers stands for a GPU: whatever stayed on the CPU would raise beside it.
    encoder.device = torch.device("meta")
    encoder.network.to("meta")
    with pytest.raises(NotImplementedError, match="meta"):  # when the features come back, and not before
        encoder.encode([torch.zeros(3, 8, 8)])
    assert seen == [("meta", "meta")]


def test_a_network_stays_on_its_device():
    with pytest.raises(ValueError, match="'device' must be one that torch can use here, got 'meta'"):
        get_encoder(Pooled().to("meta"))


def test_a_network_of_ones_own_is_used_in_evaluation_mode():
    network = Pooled()
    images = [np.full((9, 9, 3), value, np.uint8) for value in (0, 100, 200)]
    first = embed(images, network, size=8)
    assert not network.training
    np.testing.assert_array_equal(first.x[:1], embed(images[:1], network, size=8).x)  # no statistics of the batch
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(first.x[1], (100 / 255 - mean) / std, rtol=1e-4)


def test_a_network_that_gives_maps_is_refused():
    with pytest.raises(ValueError, match=r"must give a tensor \[batch_size, num_features\]"):
        embed([np.zeros((9, 9, 3), np.uint8)], nn.Conv2d(3, 2, 1), size=8)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("resnet18", {}, r"'model' must be 'timm:NAME'.* or a folder with a model, got 'resnet18'"),
        ("timm:", {}, "or a folder with a model"),
        (3, {}, "'model' must be a name"),
        (mean_colour, {}, "'kind' must say"),
        (mean_colour, {"kind": "sounds"}, "'kind' must be one of"),
        (mean_colour, {"kind": "images", "weights": "a.pth"}, "'weights' must be None"),
        (mean_colour, {"kind": "images", "batch_size": 0}, "'batch_size' must be"),
        (mean_colour, {"kind": "images", "precision": "float8"}, "'precision' must be one of"),
        (mean_colour, {"kind": "images", "precision": "float16", "device": "cpu"}, "'precision' must be"),
        (mean_colour, {"kind": "images", "device": "toaster"}, "'device' must be one that torch can use"),
    ],
)
def test_wrong_arguments_are_one_line(model, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        get_encoder(model, **options)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold modules\.json \(texts\) or config\.json"):
        get_encoder(tmp_path)


def test_a_function_must_give_a_row_for_every_item():
    with pytest.raises(ValueError, match=r"must give \[2, num_features\], got \[1, 1\]"):
        embed(["a", "b"], get_encoder(lambda texts: torch.ones(1, 1), kind="texts"))


def test_names_of_models_are_told_from_others(tmp_path):
    assert all(is_model_name(name) for name in DEFAULT_MODELS.values())
    assert {name.partition(":")[0] for name in DEFAULT_MODELS.values()} <= ENCODERS.keys()
    assert not is_model_name("crepe")
    assert not is_model_name(str(tmp_path))
