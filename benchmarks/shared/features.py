"""The data of the benchmarks: features without any label for the kNN graphs, and graphs that are given.

Fashion-MNIST and CIFAR-10 go through a patch dictionary (:mod:`shared.patches`). ``benchmarks/features.py`` makes
and caches one set, and says how its settings were chosen.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from shared import fashion
from shared.patches import cached_features
from torch import Tensor
from torch_geometric.data import Data


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


def data_folder() -> Path:
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
    with np.load(data_folder() / "medmnist" / f"{name}mnist.npz", allow_pickle=False) as file:
        images, labels = (
            np.concatenate([file[f"{part}_{what}"] for part in ("train", "val", "test")])
            for what in ("images", "labels")
        )
    y = torch.from_numpy(labels.astype(np.int64)).view(-1)
    return BenchmarkData(name, y, torch.from_numpy(images).flatten(1).float() / 255)


def _cifar10(cache: Path | None) -> BenchmarkData:
    from PIL import Image

    folder = data_folder() / "cifar10"
    strip = np.array(Image.open(folder / "train_batch1_10000.png"))  # 32 pixels wide, one image below the other
    images = torch.from_numpy(strip.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2).contiguous()
    with (folder / "train_batch1_10000_labels.csv").open(newline="", encoding="utf-8") as file:
        y = torch.tensor([int(row["label"]) for row in csv.DictReader(file)])
    return BenchmarkData("cifar10", y, cached_features("cifar10", images, cache))


def planetoid(name: str) -> Data:
    """A citation graph of PyG with the public split, and the words of its papers as features."""
    from torch_geometric.datasets import Planetoid

    with tempfile.TemporaryDirectory() as folder:  # PyG writes what it has read next to the raw files
        shutil.copytree(data_folder() / "planetoid" / name / "raw", Path(folder, name, "raw"))
        data: Data = Planetoid(folder, name, split="public")[0]
    return data


def _planetoid(name: str) -> BenchmarkData:
    data = planetoid(name)
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
    if not bool(x.isfinite().all()):
        raise ValueError(f"'x' of '{path}' must be finite, got NaN or infinity")
    return BenchmarkData(path.stem, torch.from_numpy(labels.astype(np.int64)).view(-1), x)


def _fashion(cache: Path | None) -> BenchmarkData:
    images, y = fashion.read()
    return BenchmarkData("fashion", y, cached_features("fashion", images.unsqueeze(1), cache))


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
    if name not in MAKERS:
        raise ValueError(f"'name' must be one of {', '.join(map(repr, MAKERS))}, got {name!r}")
    return MAKERS[name](cache, noise, seed)
