from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_positive, check_tensor
from tg_crepe._optional import require
from tg_crepe.nn._seeding import seeded

#: One augmentation: a batch of images and a generator in, a new batch of the same shape and type out.
Step: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]

#: Names of the ready-made augmentations.
PRESETS = ("none", "weak", "strong")


@dataclass(frozen=True)
class RandomFlip:
    r"""Mirrors every image left to right with probability one half."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Returns images of the shape of ``images``."""
        flip = _uniform(images, generator) < 0.5
        return torch.where(flip.view(-1, 1, 1, 1), images.flip(3), images)


@dataclass(frozen=True)
class RandomCrop:
    r"""Shifts every image by a random number of pixels; its reflection fills what comes in from outside.

    Args:
        share (float, optional): The largest shift as a share of the image's size, at most one half.
            (default: :obj:`0.125`, 4 of 32 pixels)
    """

    share: float = 0.125

    def __post_init__(self) -> None:
        _check_share(self.share, high=0.5)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Returns images of the shape of ``images``."""
        rows = self._positions(images, images.size(2), generator)
        columns = self._positions(images, images.size(3), generator)
        image = torch.arange(images.size(0), device=images.device).view(-1, 1, 1)
        cropped = images.permute(0, 2, 3, 1)[image, rows.unsqueeze(2), columns.unsqueeze(1)]
        return cropped.permute(0, 3, 1, 2).contiguous()

    def _positions(self, images: Tensor, size: int, generator: torch.Generator) -> Tensor:
        """Where the pixels of one side are read, reflected at both ends: torch cannot pad whole numbers so."""
        padding = int(self.share * size)
        shift = (_uniform(images, generator) * (2 * padding + 1)).long().clamp(max=2 * padding) - padding
        position = (shift.unsqueeze(1) + torch.arange(size, device=images.device)).abs()
        return (size - 1) - ((size - 1) - position).abs()


@dataclass(frozen=True)
class Cutout:
    r"""Covers a random square of every image with the image's own mean, from `"Improved Regularization of
    Convolutional Neural Networks with Cutout" <https://arxiv.org/abs/1708.04552>`_.

    The centre is uniform over the image, so that part of the square may lie outside; its side is uniform up to the
    given share.

    Args:
        share (float, optional): The largest side as a share of the image's size. (default: :obj:`0.5`)
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        _check_share(self.share, high=1.0)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Returns images of the shape of ``images``."""
        side = self.share * _uniform(images, generator)
        rows = self._covered(images, images.size(2), side, generator)
        columns = self._covered(images, images.size(3), side, generator)
        covered = (rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1)
        mean = images.float().mean(dim=(2, 3), keepdim=True).to(images.dtype)
        return torch.where(covered, mean, images)

    @staticmethod
    def _covered(images: Tensor, size: int, side: Tensor, generator: torch.Generator) -> Tensor:
        """Which positions along one axis the square covers, of shape :obj:`[batch_size, size]`."""
        centre = _uniform(images, generator).unsqueeze(1)
        position = (torch.arange(size, device=images.device) + 0.5) / size
        return (position - centre).abs() < side.unsqueeze(1) / 2


@dataclass(frozen=True)
class RandAugment:
    r"""The random operations of `"RandAugment: Practical Automated Data Augmentation with a Reduced Search Space"
    <https://arxiv.org/abs/1909.13719>`_, by torchvision; needs the extra :obj:`vision`.

    A few neighbours in the batch share their operations, which spares most of the calls. Images of floating type must
    lie in [0, 1].

    Args:
        num_ops (int, optional): The number of operations an image. (default: :obj:`2`)
        magnitude (int, optional): Their strength, from 0 to 30. (default: :obj:`9`, torchvision's)
        chunk_size (int, optional): The number of images that share their operations. (default: :obj:`4`)
    """

    num_ops: int = 2
    magnitude: int = 9
    chunk_size: int = 4

    def __post_init__(self) -> None:
        check_count("num_ops", self.num_ops)
        check_count("magnitude", self.magnitude, low=0, high=30)
        check_count("chunk_size", self.chunk_size)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Returns images of the shape of ``images``."""
        transforms = require("torchvision.transforms.v2", extra="vision")
        operate = transforms.RandAugment(num_ops=self.num_ops, magnitude=self.magnitude)
        if images.size(0) == 0:
            return images
        with seeded(_draw_seed(generator)):  # torchvision's transforms take no generator
            return torch.cat([operate(chunk) for chunk in images.split(self.chunk_size)])


class Augment:
    r"""A chain of augmentations of a batch of images, with the normalisation last.

    .. code-block:: python

        augment = Augment.preset("weak", mean=(0.286,), std=(0.353,))
        x = augment(images, torch.Generator().manual_seed(0))

    Args:
        steps (sequence, optional): Callables :obj:`step(images, generator)`, applied in order. (default: :obj:`()`)
        mean (sequence of float, optional): The mean of each channel, of images in [0, 1]. (default: :obj:`None`, 0)
        std (sequence of float, optional): The standard deviation of each channel. (default: :obj:`None`, 1)
    """

    def __init__(
        self, steps: Sequence[Step] = (), mean: Sequence[float] | None = None, std: Sequence[float] | None = None
    ) -> None:
        for value in () if std is None else std:
            check_positive("std", value)
        self.steps = tuple(steps)
        self.mean = None if mean is None else tuple(mean)
        self.std = None if std is None else tuple(std)

    @classmethod
    def preset(
        cls, name: str, mean: Sequence[float] | None = None, std: Sequence[float] | None = None, flip: bool = True
    ) -> Augment:
        r"""Makes a ready-made chain: :obj:`"none"`; :obj:`"weak"`, a flip and a crop; :obj:`"strong"`, these with
        RandAugment and cutout.

        Args:
            name (str): :obj:`"none"`, :obj:`"weak"` or :obj:`"strong"`.
            mean (sequence of float, optional): The mean of each channel. (default: :obj:`None`, 0)
            std (sequence of float, optional): The standard deviation of each channel. (default: :obj:`None`, 1)
            flip (bool, optional): Whether an image may be mirrored; a digit or a chest may not.
                (default: :obj:`True`)
        """
        check_choice("name", name, PRESETS)
        weak: list[Step] = [RandomFlip(), RandomCrop()] if flip else [RandomCrop()]
        steps: dict[str, list[Step]] = {"none": [], "weak": weak, "strong": [*weak, RandAugment(), Cutout()]}
        return cls(steps[name], mean, std)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Augments and normalises a batch.

        Args:
            images (torch.Tensor): Images of shape :obj:`[batch_size, in_channels, height, width]`, uint8 or floating.
            generator (torch.Generator, optional): Where all draws come from; images on another device get the same
                draws. (default: :obj:`None`, allowed where nothing is drawn)

        Returns:
            torch.Tensor: Floating images of the same shape; uint8 becomes [0, 1] before the normalisation.
        """
        _check_images(images)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) != images.size(1):
                raise ValueError(f"'{name}' must have a value for each of {images.size(1)} channel(s), got {values}")
        if self.steps:
            if generator is None:
                raise ValueError("'generator' must be a torch.Generator where something is drawn, got None")
            for step in self.steps:
                images = step(images, generator)
        x = to_unit(images)
        if self.mean is not None:
            x = x - x.new_tensor(self.mean).view(-1, 1, 1)
        if self.std is not None:
            x = x / x.new_tensor(self.std).view(-1, 1, 1)
        return x

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({list(self.steps)}, mean={self.mean}, std={self.std})"


def to_unit(images: Tensor) -> Tensor:
    """Images of type uint8 as float32 in [0, 1]; floating images as they are."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def mixup(images: Tensor, weighted_target: Tensor, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    r"""Mixes every image with another one of its batch, from `"mixup: Beyond Empirical Risk Minimization"
    <https://arxiv.org/abs/1710.09412>`_.

    .. math::
        \tilde{x}_i = \lambda_i x_i + (1 - \lambda_i) x_{\pi(i)}, \qquad
        \tilde{m}_i = \lambda_i m_i + (1 - \lambda_i) m_{\pi(i)}, \qquad \lambda_i \sim \mathrm{Beta}(\alpha, \alpha),

    where :math:`m` are targets times their weights (:meth:`~tg_crepe.training.HybridLoss.targets`). The loss is linear
    in them, so it is the mean of both images' losses, each with its own class weight and certainty.

    Args:
        images (torch.Tensor): Floating images of shape :obj:`[batch_size, in_channels, height, width]`.
        weighted_target (torch.Tensor): Targets times weights, of shape :obj:`[batch_size, …]`.
        alpha (float): The parameter of the Beta distribution.
        generator (torch.Generator): Where all draws come from.
    """
    _check_images(images)
    check_tensor("weighted_target", weighted_target)
    check_positive("alpha", alpha)
    if not images.is_floating_point():
        raise ValueError(f"'images' must be floating to be mixed, got {images.dtype}")
    num = images.size(0)
    if weighted_target.size(0) != num:
        raise ValueError(f"'weighted_target' must have {num} rows, one per image, got {weighted_target.size(0)}")
    # torch's own Beta distribution takes no generator.
    draws = torch.from_numpy(np.random.default_rng(_draw_seed(generator)).beta(alpha, alpha, size=num))
    other = torch.randperm(num, generator=generator, device=generator.device)

    def mix(x: Tensor) -> Tensor:
        share = draws.to(x).view(-1, *[1] * (x.dim() - 1))
        return share * x + (1 - share) * x[other.to(x.device)]

    return mix(images), mix(weighted_target)


def multi_sample(
    augment: Augment, images: Tensor, weighted_target: Tensor, num_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Augments every image several times, so that the loss is the mean over its samples, from `"LaplaceNet: A Hybrid
    Graph-Energy Neural Network for Deep Semi-Supervised Classification" <https://arxiv.org/abs/2106.04527>`_.

    .. math::
        \frac{1}{S} \sum_{s=1}^{S} \ell(f(a_s(x)), m) = \sum_{s=1}^{S} \ell(f(a_s(x)), m / S),

    where :math:`a_s` is the :math:`s`-th draw of the augmentation and :math:`m` are targets times their weights.

    Args:
        augment (Augment): The augmentation.
        images (torch.Tensor): Images of shape :obj:`[batch_size, in_channels, height, width]`.
        weighted_target (torch.Tensor): Targets times weights, of shape :obj:`[batch_size, …]`.
        num_samples (int): The number :math:`S` of samples an image.
        generator (torch.Generator): Where all draws come from.

    Returns:
        tuple: Augmented images and their weighted targets, of :obj:`num_samples * batch_size` rows; sample by sample.
    """
    _check_images(images)
    check_tensor("weighted_target", weighted_target)
    check_count("num_samples", num_samples)
    target = weighted_target.repeat(num_samples, *[1] * (weighted_target.dim() - 1)) / num_samples
    return augment(images.repeat(num_samples, 1, 1, 1), generator), target


def _uniform(images: Tensor, generator: torch.Generator) -> Tensor:
    """One number in [0, 1) an image, the same whatever the device of the images."""
    return torch.rand(images.size(0), generator=generator, device=generator.device).to(images.device)


def _draw_seed(generator: torch.Generator) -> int:
    """A seed for code that cannot draw from ``generator`` itself."""
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def _check_images(images: Tensor) -> None:
    """Raise unless ``images`` is a batch of images."""
    check_tensor("images", images)
    if images.dim() != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise ValueError(
            "'images' must be uint8 or floating of shape [batch_size, in_channels, height, width], got "
            f"{images.dtype} of shape {list(images.shape)}"
        )


def _check_share(share: float, high: float) -> None:
    """Raise unless ``share`` is a number in (0, high]."""
    check_positive("share", share)
    if share > high:
        raise ValueError(f"'share' must be in (0, {high}], got {share!r}")
