"""Small images and settings that the tests of the trainer share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from tg_crepe.datasets import ImageDataset
from tg_crepe.training import HybridTrainer, TrainingConfig

CONFIG = TrainingConfig(
    epochs=4, warmup_epochs=1, warmup_passes=2, k=5, batch_size=16, augmentation="weak", flip=False, seed=3
)
NUM_TRAIN, NUM_TEST, NUM_LABELLED = 60, 20, 13


def blobs(multi_label: bool = False) -> ImageDataset:
    """Noisy images whose class (or whose two findings) shows as bright quarters."""
    generator = torch.Generator().manual_seed(0)
    count = NUM_TRAIN + NUM_TEST
    images = torch.randint(0, 80, (count, 1, 8, 8), generator=generator)
    kind = torch.arange(count) % 3
    images[kind == 0, :, :4, :4] += 150
    images[kind == 1, :, 4:, 4:] += 150
    findings = torch.stack([(kind == 0).long(), (kind == 1).long()], dim=1)
    return ImageDataset(
        name="blobs",
        images=images.to(torch.uint8),
        targets=findings if multi_label else kind,
        train=torch.arange(NUM_TRAIN),
        test=torch.arange(NUM_TRAIN, count),
        class_names=("first", "second") if multi_label else ("a", "b", "c"),
        ids=tuple(map(str, range(count))),
        multi_label=multi_label,
    )


class Watched(ImageDataset):
    """Calls ``at_step(number, index)`` before the images of every step of the network are handed out."""

    at_step: Callable[[int, torch.Tensor], None]
    steps = 0

    @classmethod
    def watch(cls, dataset: ImageDataset, at_step: Callable[[int, torch.Tensor], None]) -> Watched:
        watched = cls(**vars(dataset))
        watched.mean  # noqa: B018  # the images of the mean are asked for before anybody watches
        object.__setattr__(watched, "at_step", at_step)
        return watched

    def fetch(self, index: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and hasattr(self, "at_step"):  # nothing is learned without gradients
            object.__setattr__(self, "steps", self.steps + 1)
            self.at_step(self.steps, index)
        return super().fetch(index)


def labelled() -> torch.Tensor:
    """The first training images; one class has a label more than the others."""
    return torch.arange(NUM_TRAIN) < NUM_LABELLED


def fit(run: Path | None = None, resume: bool = False, dataset: ImageDataset | None = None, **options) -> HybridTrainer:
    """Trains with the settings above, or with others."""
    trainer_options = {
        name: options.pop(name) for name in ("source", "backbone", "verbose", "callbacks") if name in options
    }
    config = replace(CONFIG, **options)
    return HybridTrainer(dataset or blobs(), labelled(), config=config, run=run, **trainer_options).fit(resume)


def environment() -> dict[str, str]:
    """What a process needs that imports this file and the package that is being tested."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(torch.get_num_threads())}


def weights(result: HybridTrainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in result.model.state_dict().items()}


def numbers(history: list[dict]) -> list[dict]:
    """The rows of a history without their seconds."""
    return [{name: value for name, value in row.items() if not name.endswith("_seconds")} for row in history]
