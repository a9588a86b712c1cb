"""Pretrained networks for the trainer: frozen, with features that are computed once, or learning with the head."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.embed import ImageEncoder, embed, get_encoder
from tg_crepe.embed.registry import ENCODERS
from tg_crepe.nn._seeding import seeded
from tg_crepe.nn.backbone import BackboneModule


def is_pretrained(backbone: Any) -> bool:
    """Whether a backbone is the name of a pretrained network, ``timm:NAME`` or ``torchvision:NAME``."""
    return isinstance(backbone, str) and backbone.partition(":")[0] in ENCODERS


@dataclass(frozen=True, eq=False)
class FeatureDataset(ImageDataset):
    r"""A data set whose images are the features of a frozen network, as images of one pixel.

    What the trainer does to images (a flip, a shift) leaves one pixel as it is, so that its loop, its presets and its
    checkpoints are the same; an epoch is a matter of a second.

    Args:
        pictures (ImageDataset, optional): The images themselves, for whoever wants to show them.
            (default: :obj:`None`)
        **fields: Those of :class:`~tg_crepe.datasets.ImageDataset`, with float32 :obj:`images` of shape
            :obj:`[N, num_features, 1, 1]`.
    """

    pictures: ImageDataset | None = None

    @classmethod
    def of(cls, dataset: ImageDataset, encoder: ImageEncoder) -> FeatureDataset:
        """The features of all images of a data set."""
        x = torch.from_numpy(embed(dataset, encoder).x)
        same = {field.name: getattr(dataset, field.name) for field in fields(ImageDataset) if field.name != "images"}
        return cls(images=x.view(*x.shape, 1, 1), pictures=dataset, **same)

    def _check_images(self) -> None:
        if not isinstance(self.images, Tensor) or self.images.dtype != torch.float32 or self.images.dim() != 4:
            raise ValueError("'images' must be float32 of shape [N, num_features, 1, 1], got another")

    @cached_property
    def _statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        assert isinstance(self.images, Tensor)
        x = self.images[self.train].flatten(1).double()
        std = x.std(dim=0, correction=0)
        return tuple(x.mean(dim=0).tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())


class FeatureHead(BackboneModule):
    """A linear head on features that are there already."""

    def features(self, x: Tensor) -> Tensor:
        """Features of shape :obj:`[batch_size, num_features, 1, 1]` to :obj:`[batch_size, num_features]`."""
        return x.flatten(1)


class PretrainedBackbone(BackboneModule):
    r"""A pretrained network that goes on learning, behind the resizing and normalisation that it was trained with.

    Args:
        encoder (ImageEncoder): The network.
        num_classes (int): The number of classes.
        mean (tuple): What the trainer subtracts from each channel of an image in [0, 1], and is undone here.
        std (tuple): What it divides by.
    """

    shift: Tensor
    scale: Tensor
    mean: Tensor
    std: Tensor

    def __init__(
        self, encoder: ImageEncoder, num_classes: int, mean: tuple[float, ...], std: tuple[float, ...]
    ) -> None:
        size, own_mean, own_std = encoder.geometry
        assert isinstance(encoder.network, nn.Module)
        width = encoder.encode([torch.zeros(3, size, size)]).size(1)
        super().__init__(width, num_classes)
        self.body, self.size = encoder.network.cpu(), size
        values = {"shift": mean, "scale": std, "mean": own_mean, "std": own_std}
        for name, numbers in values.items():
            self.register_buffer(name, torch.tensor(numbers).view(1, -1, 1, 1), persistent=False)

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, num_features]`."""
        x = (x * self.scale + self.shift).expand(-1, 3, -1, -1)
        x = F.interpolate(x, (self.size, self.size), mode="bicubic", antialias=True).clamp(0, 1)
        features: Tensor = self.body((x - self.mean) / self.std)
        return features


def load_pretrained(
    backbone: str, dataset: ImageDataset, fine_tune: bool, seed: int
) -> tuple[ImageDataset, BackboneModule]:
    """What the trainer reads and trains for a pretrained backbone: features and a head, or images and all of it."""
    encoder = get_encoder(backbone)
    if not isinstance(encoder, ImageEncoder):
        raise ValueError(f"'backbone' must be a network for images, got '{backbone}'")
    if fine_tune:
        with seeded(seed):
            return dataset, PretrainedBackbone(encoder, dataset.num_classes, dataset.mean, dataset.std)
    reduced = dataset if isinstance(dataset, FeatureDataset) else FeatureDataset.of(dataset, encoder)
    with seeded(seed):
        return reduced, FeatureHead(reduced.images.shape[1], dataset.num_classes)
