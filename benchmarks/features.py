r"""The data of the benchmarks: features without any label for the kNN graphs, and graphs that are given.

    python benchmarks/features.py fashion         # makes and caches one set, prints its size
    python benchmarks/features.py --report        # the settings that were tried, writes benchmarks/results/features.md

Fashion-MNIST and CIFAR-10 go through a patch dictionary after Coates and Ng, `"Learning Feature Representations with
K-means" <https://doi.org/10.1007/978-3-642-35289-8_30>`_: for every patch :math:`p` of an image, contrast-normalised
and whitened,

.. math::
    f_a(p) = \max\left(0,\; \frac{1}{A} \sum_b \|p - c_b\| - \|p - c_a\|\right),

where :math:`c_1, \dots, c_A` are k-means centres of random patches. The means of :math:`f` over the cells of a grid
are raised to a power, reduced to principal components of variance :math:`\lambda_i`, scaled by
:math:`\lambda_i^{-\omega}` and brought to unit length.

No label enters a feature. The choice among the settings in :data:`TRIED` did see labels: it was made by the
leave-one-out error of a majority vote of the 10 nearest neighbours within 10,000 random images of the training file.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fashion
import machine
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from tg_crepe._checks import check_choice, check_finite_rows
from tg_crepe.graph.neighbors import nearest_neighbors

ALGORITHM = 1  # part of the cache's key: to be raised when the same settings give other features
VOTERS = 10  # neighbours in the vote of the leave-one-out error
CHOICE = 10_000  # images of the training file that the settings were chosen on
BATCH = 20  # images at a time: their 10,580 x 256 activations (11 MB) stay near the processor
OVERSAMPLING, PASSES = 32, 5  # of the subspace iteration: columns beyond the wanted ones, products with the covariance


@dataclass(frozen=True)
class BenchmarkData:
    """Features or a given graph, with the true classes; features are meant for Euclidean distances."""

    name: str
    y: Tensor  # [num_nodes], long
    x: Tensor | None = None  # [num_nodes, num_features], float32
    edge_index: Tensor | None = None  # [2, num_edges], both directions, where the graph is given
    train_mask: Tensor | None = None  # [num_nodes], the public split, where there is one
    test_mask: Tensor | None = None
    k: int = 20  # neighbours in the graph, the paper's value


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


#: Every setting that was measured before the default was chosen.
TRIED = (
    PatchSettings(power=1.0, whitening=0.0),
    PatchSettings(power=1.0, whitening=0.25),
    PatchSettings(whitening=0.0),
    PatchSettings(whitening=0.25),
    PatchSettings(whitening=0.35),
    PatchSettings(whitening=0.5),
    PatchSettings(sizes=(10,), whitening=0.25),
    PatchSettings(sizes=(4,), whitening=0.25),
    PatchSettings(sizes=(6, 10), whitening=0.25),
    PatchSettings(sizes=(4, 6), whitening=0.25),
    PatchSettings(grid=6, whitening=0.25),
    PatchSettings(atoms=512, whitening=0.25),
)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
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


def _encode(images: Tensor, size: int, settings: PatchSettings) -> Tensor:
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


def _reduce(pooled: list[Tensor], settings: PatchSettings) -> Tensor:
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
    with _one_torch_thread():
        return _reduce([_encode(images, size, settings) for size in settings.sizes], settings)


def _cached(name: str, images: Tensor, cache: Path | None) -> Tensor:
    """Patch features at the default settings, read from the cache folder or written to it."""
    settings = PatchSettings()
    folder = cache or Path(os.environ.get("TG_CREPE_CACHE", Path.home() / ".cache" / "tg_crepe"))
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


def _data_folder() -> Path:
    root = os.environ.get("TG_CREPE_DATA")
    if not root:
        raise SystemExit("TG_CREPE_DATA must name the folder of the data sets")
    return Path(root)


def _digits() -> BenchmarkData:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return BenchmarkData("digits", torch.from_numpy(y).long(), torch.from_numpy(x).float() / 16)


def _two_moons(noise: float, seed: int) -> BenchmarkData:
    from sklearn.datasets import make_moons

    x, y = make_moons(1000, noise=noise, random_state=seed)
    return BenchmarkData("two_moons", torch.from_numpy(y).long(), torch.from_numpy(x).float(), k=10)


def _medmnist(name: str) -> BenchmarkData:
    with np.load(_data_folder() / "medmnist" / f"{name}mnist.npz", allow_pickle=False) as file:
        images, labels = (
            np.concatenate([file[f"{part}_{what}"] for part in ("train", "val", "test")])
            for what in ("images", "labels")
        )
    y = torch.from_numpy(labels.astype(np.int64)).view(-1)
    return BenchmarkData(name, y, torch.from_numpy(images).flatten(1).float() / 255)


def _cifar10(cache: Path | None) -> BenchmarkData:
    from PIL import Image

    folder = _data_folder() / "cifar10"
    strip = np.array(Image.open(folder / "train_batch1_10000.png"))  # 32 pixels wide, one image below the other
    images = torch.from_numpy(strip.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2).contiguous()
    with (folder / "train_batch1_10000_labels.csv").open(newline="", encoding="utf-8") as file:
        y = torch.tensor([int(row["label"]) for row in csv.DictReader(file)])
    return BenchmarkData("cifar10", y, _cached("cifar10", images, cache))


def _planetoid(name: str) -> BenchmarkData:
    from torch_geometric.datasets import Planetoid

    with tempfile.TemporaryDirectory() as folder:  # PyG writes what it has read next to the raw files
        shutil.copytree(_data_folder() / "planetoid" / name / "raw", Path(folder, name, "raw"))
        data = Planetoid(folder, name, split="public")[0]
    return BenchmarkData(
        name.lower(), data.y, edge_index=data.edge_index, train_mask=data.train_mask, test_mask=data.test_mask
    )


def _user_file(path: Path) -> BenchmarkData:
    with np.load(path, allow_pickle=False) as file:
        if not {"x", "y"} <= set(file.files):
            raise ValueError(f"'{path}' must hold the arrays x and y, got {', '.join(file.files) or 'none'}")
        features, labels = file["x"], file["y"]
    if features.ndim < 2 or features.size == 0 or labels.shape not in ((len(features),), (len(features), 1)):
        raise ValueError(f"'{path}' must hold x [N, F] and y [N], got shapes {features.shape} and {labels.shape}")
    if features.dtype.kind not in "fiub":
        raise ValueError(f"'x' of '{path}' must hold real numbers, got {features.dtype}")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(f"'y' of '{path}' must hold class numbers 0, 1, …, got {labels.dtype} from {labels.min()}")
    x = torch.from_numpy(features.astype(np.float32)).flatten(1)
    check_finite_rows("x", x)
    return BenchmarkData(path.stem, torch.from_numpy(labels.astype(np.int64)).view(-1), x)


def _fashion(cache: Path | None) -> BenchmarkData:
    images, y = fashion.read()
    return BenchmarkData("fashion", y, _cached("fashion", images.unsqueeze(1), cache))


def _fashion_pca() -> BenchmarkData:
    x, y = fashion.load()
    return BenchmarkData("fashion_pca", y, x)


def _fashion_pixels() -> BenchmarkData:
    images, y = fashion.read()
    return BenchmarkData("fashion_pixels", y, images.flatten(1).float() / 255)


#: What :func:`load` knows; a maker is given the cache folder, and noise and seed of synthetic data.
MAKERS: dict[str, Callable[[Path | None, float, int], BenchmarkData]] = {
    "fashion": lambda cache, noise, seed: _fashion(cache),
    "fashion_pca": lambda cache, noise, seed: _fashion_pca(),
    "fashion_pixels": lambda cache, noise, seed: _fashion_pixels(),
    "cifar10": lambda cache, noise, seed: _cifar10(cache),
    "pneumonia": lambda cache, noise, seed: _medmnist("pneumonia"),
    "breast": lambda cache, noise, seed: _medmnist("breast"),
    "digits": lambda cache, noise, seed: _digits(),
    "two_moons": lambda cache, noise, seed: _two_moons(noise, seed),
    "cora": lambda cache, noise, seed: _planetoid("Cora"),
    "citeseer": lambda cache, noise, seed: _planetoid("CiteSeer"),
    "pubmed": lambda cache, noise, seed: _planetoid("PubMed"),
}


def load(name: str, cache: Path | None = None, noise: float = 0.1, seed: int = 0) -> BenchmarkData:
    r"""One data set of the benchmarks.

    Args:
        name (str): One of :data:`MAKERS`, or the path of a :obj:`.npz` file with the arrays :obj:`x` and :obj:`y`.
        cache (Path, optional): Where the patch features are kept. (default: :obj:`TG_CREPE_CACHE`, or
            :obj:`~/.cache/tg_crepe`)
        noise (float, optional): The noise of the two moons. (default: :obj:`0.1`)
        seed (int, optional): The seed of the two moons. (default: :obj:`0`)
    """
    if name.endswith(".npz"):
        return _user_file(Path(name))
    check_choice("name", name, MAKERS)
    return MAKERS[name](cache, noise, seed)


def leave_one_out_error(x: Tensor, y: Tensor) -> float:
    """Per cent of rows whose class is not that of most of their 10 nearest neighbours (the lowest class on a tie)."""
    neighbor, _ = nearest_neighbors(x, VOTERS, backend="auto", memory_budget=256.0)
    votes = F.one_hot(y[neighbor], int(y.max()) + 1).sum(dim=1)
    return 100 * float((votes.argmax(dim=1) != y).double().mean())


def _table_of_choice(images: Tensor, y: Tensor) -> list[str]:
    """The error of every tried setting on the images that the choice was made on."""
    chosen = torch.randperm(60_000, generator=torch.Generator().manual_seed(0))[:CHOICE]
    images, y = images[chosen], y[chosen]

    @functools.cache  # most settings differ in what follows the encoding
    def encode(size: int, atoms: int, grid: int) -> Tensor:
        return _encode(images, size, PatchSettings(atoms=atoms, grid=grid))

    lines = ["| patches | atoms | grid | power | ω | error % |", "|---" * 6 + "|"]
    for settings in tqdm(TRIED, desc="settings", disable=None):
        with _one_torch_thread():
            x = _reduce([encode(size, settings.atoms, settings.grid) for size in settings.sizes], settings)
        sizes = " and ".join(map(str, settings.sizes))
        error = leave_one_out_error(x, y)
        row = (sizes, settings.atoms, settings.grid, settings.power, settings.whitening, f"{error:.2f}")
        used = " (used)" if settings == PatchSettings() else ""
        lines.append(f"| {' | '.join(map(str, row))}{used} |")
    return lines


def write_report() -> str:
    """Writes results/features.md: the choice of the settings, and the error of what came out on all images."""
    images, y = fashion.read()
    images = images.unsqueeze(1)
    start, start_cpu = time.perf_counter(), time.process_time()
    x = patch_features(images, PatchSettings())
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    lines = [
        machine.describe(),
        "",
        f"Features of {len(y):,} Fashion-MNIST images, {x.size(1)} numbers each: {seconds:.0f} s "
        f"({cpu:.0f} s of processor time).",
        "",
        f"Leave-one-out error of a vote of the {VOTERS} nearest neighbours, all images: "
        f"**{leave_one_out_error(x, y):.2f} %**; with the pixels' 128 principal components "
        f"{leave_one_out_error(*fashion.load()):.2f} %.",
        "",
        f"The settings that were tried, by the same error within {CHOICE:,} random images of the training file:",
        "",
        *_table_of_choice(images, y),
    ]
    text = "\n".join(lines) + "\n"
    machine.write_text(text, machine.RESULTS / "features.md")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="fashion", help=f"{', '.join(MAKERS)} or a .npz file")
    parser.add_argument("--cache", type=Path, help="folder of the cached features ($TG_CREPE_CACHE, ~/.cache/tg_crepe)")
    parser.add_argument("--report", action="store_true", help="measure the settings, write results/features.md")
    options = parser.parse_args()
    if options.report:
        print(write_report())
        return
    start = time.perf_counter()
    data = load(options.name, options.cache)
    what = "given graph" if data.x is None else f"{data.x.size(1)} features"
    seconds = time.perf_counter() - start
    print(f"{data.name}: {len(data.y):,} nodes, {int(data.y.max()) + 1} classes, {what}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
