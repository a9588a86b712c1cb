import pytest
import torch
from torch import nn

from tg_crepe.nn import get_backbone
from tg_crepe.training import Augment, extract_features

IMAGES = torch.randint(0, 256, (11, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


@pytest.fixture
def model():
    return get_backbone("small_cnn", 1, 3, 8)


def test_rows_are_unit_vectors_of_the_features_in_evaluation_mode(model):
    x = extract_features(model, IMAGES, batch_size=4)
    with torch.no_grad():
        expected = model.eval().features(IMAGES / 255)
    assert x.shape == (11, 128)
    assert x.dtype == torch.float32
    assert not x.requires_grad
    assert torch.allclose(x, expected / expected.norm(dim=1, keepdim=True), atol=1e-6)


def test_a_second_call_gives_the_same_bits_and_changes_nothing(model):
    state = {name: value.clone() for name, value in model.state_dict().items()}
    first = extract_features(model, IMAGES, batch_size=4)
    assert torch.equal(extract_features(model, IMAGES, batch_size=4), first)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_modes_are_restored_one_by_one_even_after_an_error(model):
    model.train()
    model.body[1].eval()  # a frozen norm
    extract_features(model, IMAGES)
    with pytest.raises(RuntimeError):
        extract_features(model, IMAGES.repeat(1, 2, 1, 1))
    assert model.training
    assert model.body[4].training
    assert not model.body[1].training


def test_an_iterable_of_batches_gives_the_same(model):
    batches = (IMAGES[i : i + 4] for i in range(0, 11, 4))
    assert torch.equal(extract_features(model, batches), extract_features(model, IMAGES, batch_size=4))


def test_preparation_is_applied(model):
    prepare = Augment.preset("none", mean=(0.5,), std=(0.25,))
    expected = extract_features(model, (IMAGES / 255 - 0.5) / 0.25)
    assert torch.allclose(extract_features(model, IMAGES, prepare), expected, atol=1e-6)


class Plain(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def features(self, x):
        return x.flatten(1) * self.scale

    def head(self, features):
        return features


def test_a_module_without_weights_or_forward_will_do_and_a_zero_row_stays():
    x = extract_features(Plain(), torch.tensor([[0.0, 0.0], [3.0, 4.0]]).view(2, 1, 1, 2))
    assert torch.allclose(x, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: extract_features(nn.Linear(2, 2), IMAGES), r"without features and head"),
        (lambda: extract_features(Plain(), IMAGES, batch_size=0), r"'batch_size' must be an integer >= 1, got 0"),
        (lambda: extract_features(Plain(), []), r"'images' must hold at least one batch"),
        (lambda: extract_features(Plain(float("nan")), IMAGES), r"'features' must be finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
