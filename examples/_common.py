"""What the scripts of the image data sets share: arguments, a small stand-in for missing data, one table at the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from tg_crepe.datasets import ImageDataset, RandomLabelSplit
from tg_crepe.training import PRESETS, HybridTrainer, Preset, TrainingInterrupted, get_preset

Load = Callable[..., ImageDataset]


def arguments(name: str, doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="cpu", help="the paper's settings or small ones (cpu)")
    parser.add_argument("--energy", default="crepe", help="crepe, lgc, … ; network or none for the baselines (crepe)")
    parser.add_argument("--labels", type=float, help="labels, in the unit of the preset (the preset's)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order (0)")
    parser.add_argument("--root", type=Path, help="the data; TG_CREPE_DATA if not given, else a synthetic stand-in")
    parser.add_argument("--run", type=Path, help=f"the folder of the run (runs/{name}-PRESET-ENERGY-SEED)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder of the run")
    parser.add_argument("--fast", action="store_true", help="a smoke run of seconds: few images, two epochs")
    return parser


def stand_in(name: str, num_classes: int, channels: int, size: int, multi_label: bool = False) -> ImageDataset:
    """Random images with a faint pattern a class: something to run on, nothing to report."""
    generator = torch.Generator().manual_seed(0)
    count = max(200, 4 * num_classes)
    kind = torch.arange(count) % num_classes
    pattern = torch.rand(num_classes, channels, size, size, generator=generator)
    images = 0.6 * pattern[kind] + 0.4 * torch.rand(count, channels, size, size, generator=generator)
    findings = torch.nn.functional.one_hot(kind, num_classes)
    return ImageDataset(
        name=f"{name} (synthetic stand-in)",
        images=(255 * images).to(torch.uint8),
        targets=findings if multi_label else kind,
        train=torch.arange(count * 3 // 4),
        test=torch.arange(count * 3 // 4, count),
        class_names=tuple(map(str, range(num_classes))),
        ids=tuple(map(str, range(count))),
        multi_label=multi_label,
    )


def shrink(dataset: ImageDataset, preset: Preset, most: int = 64) -> tuple[ImageDataset, Preset]:
    """A few images and two epochs, for ``--fast``."""
    train, test = (
        index[torch.linspace(0, len(index) - 1, min(most, len(index)), dtype=torch.float64).long()]
        for index in (dataset.train, dataset.test)
    )
    config = replace(preset.config, epochs=2, warmup_epochs=1, warmup_passes=1, batch_size=16, k=min(5, len(train) - 1))
    return replace(dataset, train=train, test=test), replace(preset, config=config, labels=40, unit="percent")


def first_found(*loads: Callable[[], ImageDataset]) -> ImageDataset:
    """The first data set whose files are there; where none is, the error is that of the first."""
    errors = []
    for load in loads:
        try:
            return load()
        except FileNotFoundError as error:
            errors.append(error)
    raise errors[0]


def run(dataset: ImageDataset, preset: Preset, args: argparse.Namespace, name: str) -> None:
    if args.fast:
        dataset, preset = shrink(dataset, preset)
    elif args.run is None:
        args.run = Path("runs", f"{name}-{args.preset}-{args.energy}-{args.seed}")
    labels = preset.labels if args.labels is None else args.labels
    labels = int(labels) if float(labels).is_integer() else labels
    split = RandomLabelSplit(labels, preset.unit, seed=args.seed).draw(dataset)
    config = replace(preset.config, seed=args.seed)
    print(f"{dataset}, {int(split.train_mask.sum())} labels, preset '{args.preset}', energy '{args.energy}'")
    start = time.perf_counter()
    trainer = HybridTrainer(
        dataset.in_memory(), split, preset.backbone, args.energy, config, run=args.run, verbose=True
    )
    final = trainer.fit(resume=args.resume).final
    print(f"{'test error %':>14}{'test AUC %':>12}{'pseudo-label error %':>22}{'seconds':>10}")
    error, auc, pseudo = (
        "-" if final.get(key) is None else f"{100 * final[key]:.2f}" for key in ("error", "auc", "pseudo_error")
    )
    print(f"{error:>14}{auc:>12}{pseudo:>22}{time.perf_counter() - start:>10.1f}")


def main(name: str, doc: str, load: Load, like: Callable[[], ImageDataset], **options: str) -> None:
    """Reads the arguments, loads the data and trains; ``like`` is used where no data is named.

    ``options`` are further arguments of ``load`` and their defaults.
    """
    parser = arguments(name, doc)
    for option, default in options.items():
        parser.add_argument(f"--{option}", default=default, help=f"({default})")
    args = parser.parse_args()
    root = args.root or (None if name == "custom" else os.environ.get("TG_CREPE_DATA"))
    try:
        preset = get_preset(name, args.preset)
        chosen = {option: getattr(args, option) for option in options}
        # A smoke run takes any files in the official layout, a real one only the official files, and all of them.
        dataset = like() if root is None else load(Path(root), preset.size, not args.fast, **chosen)
        run(dataset, preset, args, name)
    except TrainingInterrupted as stop:
        print(f"{stop}; add --resume", file=sys.stderr)
        sys.exit(128 + stop.signum)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
