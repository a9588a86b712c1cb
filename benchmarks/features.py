"""The features of the benchmarks: makes and caches one set, or says how the settings were chosen.

    python benchmarks/features.py fashion         # makes and caches one set, prints its size
    python benchmarks/features.py --report        # the settings that were tried, writes benchmarks/results/features.md

No label enters a feature. The choice among the settings in :data:`TRIED` did see labels: it was made by the
leave-one-out error of a majority vote of the 10 nearest neighbours within 10,000 random images of the training file.
"""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from shared import fashion, machine
from shared.features import MAKERS, load
from shared.patches import PatchSettings, encode_patches, one_torch_thread, patch_features, reduce_activations
from torch import Tensor
from tqdm import tqdm

from tg_crepe.graph.neighbors import nearest_neighbors

VOTERS = 10  # neighbours in the vote of the leave-one-out error
CHOICE = 10_000  # images of the training file that the settings were chosen on

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
        return encode_patches(images, size, PatchSettings(atoms=atoms, grid=grid))

    lines = ["| patches | atoms | grid | power | ω | error % |", "|---" * 6 + "|"]
    for settings in tqdm(TRIED, desc="settings", disable=None):
        with one_torch_thread():
            x = reduce_activations([encode(size, settings.atoms, settings.grid) for size in settings.sizes], settings)
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
