"""A folder of images and a table of labels to try the commands on: scikit-learn's handwritten digits as files.

Writes ``images/`` with 1,797 pictures, ``labels.csv`` with the labels of 100 of them, and for comparison
``truth.csv`` with all labels and ``features.npz`` with the pixels as features.

Run ``python examples/digit_images.py FOLDER``.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from tg_crepe.datasets import load_digits

NUM_LABELS, SEED = 100, 100


def write_table(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    digits = load_digits()
    names = [f"scan-{place:04d}.png" for place in range(len(digits))]
    labels = [f"digit {label}" for label in digits.targets.tolist()]
    (folder / "images").mkdir(parents=True)
    for name, image in zip(names, digits.images.numpy(), strict=True):
        Image.fromarray(image[0]).save(folder / "images" / name)
    labelled = np.sort(np.random.default_rng(SEED).permutation(len(names))[:NUM_LABELS])
    write_table(folder / "labels.csv", [(names[place], labels[place]) for place in labelled])
    write_table(folder / "truth.csv", zip(names, labels, strict=True))
    np.savez(folder / "features.npz", x=digits.images.flatten(1).float().numpy(), ids=np.array(names))
    print(
        f"{len(names):,} images in {folder / 'images'}, the labels of {NUM_LABELS} of them in {folder / 'labels.csv'}"
    )


if __name__ == "__main__":
    main()
