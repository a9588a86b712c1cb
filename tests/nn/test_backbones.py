import pytest
import torch
from torch import nn

from tg_crepe.nn import BACKBONES, Backbone, Cnn13, ResNet18, SmallCnn, WideResNet, as_backbone, get_backbone


def num_weights(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.fixture
def no_torchvision(monkeypatch):
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == "torchvision" else found(name, *rest))


@pytest.mark.parametrize("name", list(BACKBONES))
@pytest.mark.parametrize(("in_channels", "image_size"), [(1, 28), (3, 32), (3, 64)])
def test_forward_is_the_head_of_the_features(name, in_channels, image_size):
    model = get_backbone(name, in_channels, 5, image_size).eval()
    assert type(model).__name__ == BACKBONES[name]
    assert isinstance(model, Backbone)
    x = torch.rand(2, in_channels, image_size, image_size)
    with torch.no_grad():
        features = model.features(x)
        logits = model(x)
        assert torch.equal(logits, model.head(features))
    assert features.shape == (2, model.num_features)
    assert logits.shape == (2, 5)
    assert bool(torch.isfinite(logits).all())


def test_sizes_are_those_of_the_literature():
    assert num_weights(WideResNet(3, 10)) == 1_467_610  # "1.5 M" for WRN-28-2
    assert num_weights(Cnn13(3, 10)) == 3_121_802  # "3.1 M" for the 13-layer network
    assert num_weights(ResNet18(3, 10, 32)) == 11_173_962  # "11.17 M" with the stem for 32 pixels
    assert num_weights(SmallCnn(1, 10)) < 100_000


def test_depth_counts_layers():
    convs = [m.kernel_size for m in WideResNet(3, 10).modules() if isinstance(m, nn.Conv2d)]
    assert convs.count((3, 3)) == 25
    assert convs.count((1, 1)) == 3  # the count of the paper has the shortcut of each group in it
    assert len(convs) == 28
    assert sum(isinstance(m, nn.Conv2d) for m in Cnn13(3, 10).modules()) == 9


def test_features_of_the_13_layer_network_have_unit_length():
    x = torch.rand(3, 1, 12, 12)
    assert torch.allclose(Cnn13(1, 4, 12).eval().features(x).norm(dim=1), torch.ones(3))


@pytest.mark.parametrize(("image_size", "stride", "pool"), [(32, 1, nn.Identity), (64, 2, nn.Identity)])
def test_the_stem_fits_the_image(image_size, stride, pool):
    body = ResNet18(3, 10, image_size).body
    assert body.conv1.kernel_size == (3, 3)
    assert body.conv1.stride == (stride, stride)
    assert isinstance(body.maxpool, pool)


def test_large_images_keep_the_stem_of_torchvision():
    body = ResNet18(1, 10, 224).body
    assert body.conv1.kernel_size == (7, 7)
    assert body.conv1.in_channels == 1
    assert isinstance(body.maxpool, nn.MaxPool2d)


def test_without_norm_images_do_not_see_each_other():
    model = get_backbone("small_cnn", 1, 3, 8, norm=False).train().double()
    assert not any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    x = torch.rand(4, 1, 8, 8, dtype=torch.double)
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-12)


def test_weights_depend_on_the_seed_alone():
    before = torch.random.get_rng_state()
    first, again, other = (get_backbone("small_cnn", 1, 3, 8, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.head.weight, other.head.weight)


def test_missing_torchvision_names_the_extra(no_torchvision):
    with pytest.raises(ImportError, match=r"'torchvision' .* not installed: pip install \"tg-crepe\[vision\]\""):
        get_backbone("resnet18", 3, 10, 32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: get_backbone("vgg", 3, 10, 32), r"'name' must be one of 'cnn13', .*'small_cnn', got 'vgg'"),
        (lambda: Cnn13(3, 10, 8), r"'image_size' must be an integer >= 12, got 8"),
        (lambda: SmallCnn(0, 10), r"'in_channels' must be an integer >= 1, got 0"),
        (lambda: ResNet18(3, 0), r"'num_classes' must be an integer >= 1, got 0"),
        (lambda: WideResNet(3, 10, depth=27), r"'depth' must be 6 n \+ 4 .* got 27"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Flatten()
        self.head = nn.Linear(4, 2)


def test_a_module_with_two_parts_gets_a_forward_pass():
    parts = Parts()
    model = as_backbone(parts)
    x = torch.rand(3, 1, 2, 2)
    assert isinstance(model, Backbone)
    assert torch.equal(model(x), parts.head(x.flatten(1)))
    assert next(model.parameters()) is next(parts.parameters())


def test_a_whole_backbone_is_left_as_it_is():
    model = get_backbone("small_cnn", 1, 3, 8)
    assert as_backbone(model) is model


def test_missing_parts_are_named():
    with pytest.raises(ValueError, match=r"got Linear without features and head"):
        as_backbone(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"'module' must be a torch.nn.Module, got str"):
        as_backbone("resnet18")
