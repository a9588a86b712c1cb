r"""Features of images without any label, by a dictionary of patches.

After Coates and Ng, `"Learning Feature Representations with
K-means" <https://doi.org/10.1007/978-3-642-35289-8_30>`_: for every patch :math:`p` of an image, contrast-normalised
and whitened,

.. math::
    f_a(p) = \max\left(0,\; \frac{1}{A} \sum_b \|p - c_b\| - \|p - c_a\|\right),

where :math:`c_1, \dots, c_A` are k-means centres of random patches. The means of :math:`f` over the cells of a grid
are raised to a power, reduced to principal components of variance :math:`\lambda_i`, scaled by
:math:`\lambda_i^{-\omega}` and brought to unit length.

"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from shared import machine
from torch import Tensor
from tqdm import tqdm

ALGORITHM = 1  # part of the cache's key: to be raised when the same settings give other features
BATCH = 20  # images at a time: their 10,580 x 256 activations (11 MB) stay near the processor
OVERSAMPLING, PASSES = 32, 5  # of the subspace iteration: columns beyond the wanted ones, products with the covariance


@dataclass(frozen=True)
class PatchSettings:
    """Settings of the patch dictionary; the defaults are what the benchmarks use."""

    sizes: tuple[int, ...] = (6,)  # pixels a side; 4 with 6 is no better and twice the work
    atoms: int = 256  # 512 is no better
    grid: int = 4  # cells a side: clothes are aligned, so place matters; 6 is no better and 2.25 times as wide
    power: float = 0.5  # the square root keeps a few strong cells from ruling the distance
    whitening: float = 0.35  # ω: 0 leaves the distance to the few largest components, 0.5 lifts noise
    dimension: int = 128  # as wide as the pixels' components of the speed benchmarks
    sample: int = 100_000  # random patches for k-means, about 400 an atom
    rounds: int = 10  # of k-means
    blank: float = 1e-3  # patches of less variance are background and teach the dictionary nothing
    contrast: float = 0.01  # added to a patch's variance (pixels in [0, 1]): noise in flat patches is not blown up
    ridge: float = 0.1  # added to the patches' eigenvalues: the same for their whitening
    seed: int = 0


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """The order of torch's sums depends on its threads: here batches are spread over threads instead."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _normalise_contrast(patches: Tensor, contrast: float) -> Tensor:
    """Patches of shape [count, pixels, positions] with zero mean and about unit variance over their pixels."""
    patches = patches - patches.mean(dim=1, keepdim=True)
    return patches / (patches.square().mean(dim=1, keepdim=True) + contrast).sqrt()


def _sample_patches(images: Tensor, size: int, settings: PatchSettings, generator: torch.Generator) -> Tensor:
    """Random patches of shape [count, pixels] that show something, contrast-normalised."""
    count, height, width = settings.sample, images.size(2) - size + 1, images.size(3) - size + 1
    which, top, left = (torch.randint(n, (count,), generator=generator) for n in (len(images), height, width))
    row = (top[:, None] + torch.arange(size))[:, None, :, None]
    column = (left[:, None] + torch.arange(size))[:, None, None, :]
    channel = torch.arange(images.size(1))[None, :, None, None]
    patches = images[which[:, None, None, None], channel, row, column].flatten(1).float() / 255
    patches = patches[patches.var(dim=1) > settings.blank]
    return _normalise_contrast(patches.unsqueeze(2), settings.contrast).squeeze(2)


def _learn_dictionary(
    images: Tensor, size: int, settings: PatchSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and whitening matrix of the patches, and k-means centres of the whitened ones."""
    patches = _sample_patches(images, size, settings, generator)
    mean = patches.mean(dim=0)
    variance, vectors = torch.linalg.eigh((patches - mean).t() @ (patches - mean) / len(patches))
    whiten = vectors * (variance + settings.ridge).rsqrt() @ vectors.t()
    patches = (patches - mean) @ whiten
    centres = patches[torch.randperm(len(patches), generator=generator)[: settings.atoms]]
    for _ in range(settings.rounds):
        nearest = (patches @ centres.t() - centres.square().sum(dim=1) / 2).argmax(dim=1)
        total = torch.zeros_like(centres).index_add_(0, nearest, patches)
        members = nearest.bincount(minlength=settings.atoms).unsqueeze(1)
        centres = torch.where(members > 0, total / members.clamp(min=1), centres)
    return mean, whiten, centres


def _average_cells(activation: Tensor, grid: int) -> Tensor:
    """Means over the cells of a grid: [count, height, width, atoms] becomes [count, grid, grid, atoms]."""
    for dim in (1, 2):
        length = activation.size(dim)
        sizes = [round((i + 1) * length / grid) - round(i * length / grid) for i in range(grid)]
        activation = torch.stack([part.mean(dim=dim) for part in activation.split(sizes, dim=dim)], dim=dim)
    return activation


def encode_patches(images: Tensor, size: int, settings: PatchSettings) -> Tensor:
    """Pooled triangle activations of shape [num_images, grid · grid · atoms]."""
    mean, whiten, centres = _learn_dictionary(images, size, settings, torch.Generator().manual_seed(settings.seed))
    squares, positions = centres.square().sum(dim=1), (images.size(2) - size + 1, images.size(3) - size + 1)

    def encode(batch: Tensor) -> Tensor:
        patches = _normalise_contrast(F.unfold(batch.float() / 255, size), settings.contrast)
        patches = (patches.transpose(1, 2).flatten(0, 1) - mean) @ whiten
        # In place, for there are num_images · positions · atoms of these.
        distance = torch.addmm(squares, patches, centres.t(), alpha=-2).add_(patches.square().sum(dim=1, keepdim=True))
        distance = distance.clamp_(min=0).sqrt_()
        activation = distance.sub_(distance.mean(dim=1, keepdim=True)).neg_().clamp_(min=0)
        return _average_cells(activation.view(len(batch), *positions, -1), settings.grid).flatten(1)

    with ThreadPoolExecutor(os.cpu_count(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        batches = images.split(BATCH)
        encoded = pool.map(encode, batches)
        return torch.cat(list(tqdm(encoded, total=len(batches), desc=f"{size}-pixel patches", disable=None)))


def reduce_activations(pooled: list[Tensor], settings: PatchSettings) -> Tensor:
    """Principal components of the pooled activations of all patch sizes, partly whitened, at unit length."""
    x = torch.cat(pooled, dim=1).pow_(settings.power)
    x -= x.mean(dim=0)
    generator = torch.Generator().manual_seed(settings.seed)
    basis = torch.randn(x.size(1), settings.dimension + OVERSAMPLING, generator=generator)
    for _ in range(PASSES):
        basis = torch.linalg.qr(x.t() @ (x @ basis)).Q
    scores = x @ basis
    variance, rotation = torch.linalg.eigh(scores.t() @ scores / len(x))
    variance, rotation = variance.flip(0)[: settings.dimension], rotation.flip(1)[:, : settings.dimension]
    return F.normalize(scores @ rotation * variance.pow(-settings.whitening), dim=1)


def patch_features(images: Tensor, settings: PatchSettings) -> Tensor:
    """Unit features of shape [num_images, dimension] of bytes of shape [num_images, channels, height, width]."""
    with one_torch_thread():
        return reduce_activations([encode_patches(images, size, settings) for size in settings.sizes], settings)


def cached_features(name: str, images: Tensor, cache: Path | None) -> Tensor:
    """Patch features at the default settings, read from the cache folder or written to it."""
    settings = PatchSettings()
    folder = cache or machine.cache_folder()
    content = hashlib.sha256(images.numpy().tobytes()).hexdigest()
    key = hashlib.sha256(repr((ALGORITHM, OVERSAMPLING, PASSES, settings, content)).encode()).hexdigest()
    path = folder / f"{name}_patches_{key[:16]}.npy"
    if path.exists():
        return torch.from_numpy(np.load(path, allow_pickle=False))
    x = patch_features(images, settings)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")  # two runs at once must not write to one file
    with temporary.open("wb") as file:
        np.save(file, x.numpy())
    temporary.replace(path)
    return x
