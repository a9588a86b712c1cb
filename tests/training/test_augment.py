import pytest
import torch
import torch.nn.functional as F

from tg_crepe.training import (
    Augment,
    ClassWeights,
    Cutout,
    RandAugment,
    RandomCrop,
    RandomFlip,
    mixup,
    multi_sample,
    weighted_loss,
)

STEPS = [RandomFlip(), RandomCrop(), Cutout(), RandAugment()]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(dtype=torch.uint8, num=16, channels=3, size=16):
    x = torch.randint(0, 256, (num, channels, size, size), generator=generator()).to(torch.uint8)
    return x if dtype == torch.uint8 else x.to(dtype) / 255


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_step_keeps_shape_and_type_and_depends_on_the_generator_alone(step, dtype, channels):
    x = images(dtype, channels=channels)
    before, state = x.clone(), torch.random.get_rng_state()
    out = step(x, generator(1))
    assert out.shape == x.shape
    assert out.dtype == dtype
    assert torch.equal(out, step(x, generator(1)))
    assert not torch.equal(out, step(x, generator(2)))
    assert torch.equal(x, before)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_an_empty_batch_stays_empty(step):
    assert step(images(num=0), generator()).shape == (0, 3, 16, 16)


def test_flip_mirrors_about_half_of_the_images():
    x = images(num=200, channels=1, size=4)
    out = RandomFlip()(x, generator())
    same, mirrored = ((out == y).flatten(1).all(dim=1) for y in (x, x.flip(3)))
    assert bool((same | mirrored).all())
    assert 60 < int(mirrored.sum()) < 140


def test_crop_is_a_window_of_the_reflected_image():
    x = images(torch.float32, num=64, channels=2, size=8)
    padded = F.pad(x, (2, 2, 2, 2), mode="reflect")
    windows = torch.stack([padded[:, :, i : i + 8, j : j + 8] for i in range(5) for j in range(5)])
    hits = (windows == RandomCrop(0.25)(x, generator())).flatten(2).all(dim=2)
    assert bool(hits.any(dim=0).all())
    assert int(hits.any(dim=1).sum()) > 15  # of 25 shifts


def test_cutout_covers_one_rectangle_by_the_mean():
    x = images(torch.float32, num=64, channels=1, size=16)
    out = Cutout(0.5)(x, generator())
    for before, after in zip(x[:, 0], out[:, 0], strict=True):
        changed = before != after
        assert torch.allclose(after[changed], before.mean())
        rows, columns = changed.any(dim=1), changed.any(dim=0)
        assert int(rows.sum()) <= 8
        assert int(columns.sum()) <= 8
        assert torch.equal(changed, rows.unsqueeze(1) & columns)
    assert float((x != out).float().mean()) > 0.02


def test_chunks_of_rand_augment_have_operations_of_their_own():
    x = images(num=1).repeat(12, 1, 1, 1)
    out = RandAugment(chunk_size=4)(x, generator()).flatten(1)
    assert all(bool((out[i : i + 4] == out[i]).all()) for i in (0, 4, 8))
    assert out.unique(dim=0).size(0) > 1


def test_normalisation_comes_last():
    x = images()
    augment = Augment([RandomFlip()], mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    mean, std = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1), torch.tensor([0.5, 0.6, 0.7]).view(3, 1, 1)
    expected = (RandomFlip()(x, generator(3)).float() / 255 - mean) / std
    assert torch.allclose(augment(x, generator(3)), expected)


def test_presets():
    x = images()
    assert torch.equal(Augment.preset("none")(x), x.float() / 255)
    assert Augment.preset("none")(images(torch.float64)).dtype == torch.float64
    assert Augment.preset("weak").steps == (RandomFlip(), RandomCrop())
    assert Augment.preset("strong").steps == (RandomFlip(), RandomCrop(), RandAugment(), Cutout())
    assert Augment.preset("weak", flip=False).steps == (RandomCrop(),)
    assert Augment.preset("strong")(x, generator()).shape == x.shape
    assert repr(Augment.preset("weak", flip=False)) == "Augment([RandomCrop(share=0.125)], mean=None, std=None)"


def test_missing_torchvision_names_the_extra(monkeypatch):
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None)
    with pytest.raises(ImportError, match=r"'torchvision' .* not installed: pip install \"tg-crepe\[vision\]\""):
        RandAugment()(images(), generator())


def test_mixup_gives_the_mean_of_both_losses():
    num = 6
    x = torch.eye(num).view(num, 1, 1, num)  # an image that shows its mixture
    weights = ClassWeights(torch.tensor([0.5, 1.0, 1.5]))
    target = weights.weigh(torch.tensor([0, 1, 2, -1, 1, 2])) * torch.linspace(0.1, 1, num).unsqueeze(1)
    mixed, mixed_target = mixup(x, target, 0.7, generator())
    share = mixed.view(num, num)  # row i: λ at i, 1 − λ at its partner
    assert torch.allclose(share.sum(dim=1), torch.ones(num))
    assert torch.allclose(mixed_target, share @ target, atol=1e-6)
    logits = torch.randn(num, 3, generator=generator(1))
    each = torch.stack([weighted_loss(logits, target[j].expand(num, 3)) for j in range(num)], dim=1)
    assert torch.allclose(weighted_loss(logits, mixed_target), (share * each).sum(dim=1), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_shares_of_mixup_have_the_variance_of_the_beta_distribution(alpha):
    num = 4000
    x = torch.arange(2.0).repeat(num // 2).view(num, 1, 1, 1)
    _, target = mixup(x, torch.eye(num), alpha, generator())
    share = target.diagonal()
    share = share[share < 1]  # an image that met itself
    assert float(share.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(share.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


def test_mixup_depends_on_the_generator_alone_and_takes_findings():
    x, target = images(torch.float32), torch.rand(16, 2, 5, generator=generator())
    first, again = mixup(x, target, 1.0, generator(4)), mixup(x, target, 1.0, generator(4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert first[1].shape == target.shape


def test_samples_of_an_image_share_its_weight():
    x, target = images(num=4), torch.rand(4, 5, generator=generator())
    augmented, repeated = multi_sample(Augment.preset("weak"), x, target, 3, generator())
    assert augmented.shape == (12, 3, 16, 16)
    assert torch.allclose(repeated.view(3, 4, 5), target / 3)
    assert not torch.equal(augmented[:4], augmented[4:8])
    logits = torch.randn(12, 5, generator=generator(1))
    losses = [weighted_loss(part, target).sum() for part in logits.split(4)]
    assert torch.allclose(weighted_loss(logits, repeated).sum(), sum(losses) / 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Augment.preset("mild"), r"'name' must be one of 'none', 'weak', 'strong', got 'mild'"),
        (lambda: Augment.preset("weak")(images()), r"'generator' must be a torch.Generator"),
        (lambda: Augment(mean=(0.5,))(images()), r"'mean' must have a value for each of 3 channel\(s\), got \(0.5,\)"),
        (lambda: Augment(std=(0.0,)), r"'std' must be a finite number > 0, got 0.0"),
        (lambda: Augment()(images()[0]), r"'images' must be uint8 or floating of shape .* got torch.uint8 of shape"),
        (lambda: RandomCrop(0.6), r"'share' must be in \(0, 0.5\], got 0.6"),
        (lambda: Cutout(0.0), r"'share' must be a finite number > 0, got 0.0"),
        (lambda: RandAugment(magnitude=31), r"'magnitude' must be an integer in \[0, 30\], got 31"),
        (lambda: mixup(images(), torch.rand(16, 2), 1.0, generator()), r"'images' must be floating"),
        (lambda: mixup(images(torch.float32), torch.rand(5, 2), 1.0, generator()), r"must have 16 rows, .* got 5"),
        (lambda: mixup(images(torch.float32), torch.rand(16, 2), 0.0, generator()), r"'alpha' must be a finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
