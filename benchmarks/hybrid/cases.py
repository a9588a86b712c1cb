"""What ``hybrid`` trains on: data sets, shares of labels, settings of the trainer, and about how long they take."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe.datasets import ImageDataset, get_dataset
from tg_crepe.training import TrainingConfig

#: Where the pseudo-labels come from, in the order of the tables.
SOURCES = {
    "none": "supervised",
    "network": "network pseudo-labels",
    "lgc": "LGC hybrid",
    "crepe": "CREPE hybrid",
}

#: The images of a step, and how many of them are labelled.
BATCH, LABELLED = 100, 25

#: Warm-up epochs; how often they go through the labels follows from the steps that a data set wants.
WARMUP_EPOCHS = 2

#: Seconds of an energy by image, and of its graph by pair of images, on one thread.
ENERGY_SECONDS = {"lgc": 5e-5, "crepe": 1.5e-4}
GRAPH_SECONDS = 5e-9


@dataclass(frozen=True)
class Setting:
    """How a data set is trained on.

    Args:
        images (int): How many training images take part, the first ones.
        watched (int): How many test images the error of every epoch is taken from; the last model sees all of them.
        epochs (int): The number of epochs with pseudo-labels.
        warmup_steps (int): About how many supervised steps come before them.
        flip (bool): Whether an image may be mirrored. (default: :obj:`False`)
        pixels (int): To how many pixels a side images are averaged, 0 for as they are. (default: :obj:`0`)
    """

    images: int
    watched: int
    epochs: int
    warmup_steps: int
    flip: bool = False
    pixels: int = 0


SETTINGS = {
    "fashion_mnist": Setting(30_000, 2_000, 3, 200, flip=True),
    "cifar10_subset": Setting(10_000, 1_000, 6, 200, flip=True),
    "pneumoniamnist": Setting(4_708, 624, 6, 60),
    "breastmnist": Setting(546, 156, 12, 30),
    "chestxray14_subset": Setting(4_032, 967, 8, 100, pixels=32),
}


#: What is different where Fashion-MNIST must be trained on many times.
SMALLER = {"images": 10_000, "epochs": 6, "warmup_steps": 100}


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time of an image on one thread, and how many test images the last model sees."""

    learn: float  # in a training step
    look: float  # in evaluation mode
    tested: int


COSTS = {
    "fashion_mnist": Cost(0.45, 0.17, 10_000),
    "cifar10_subset": Cost(0.65, 0.25, 2_000),
    "pneumoniamnist": Cost(0.45, 0.17, 624),
    "breastmnist": Cost(0.45, 0.17, 156),
    "chestxray14_subset": Cost(0.65, 0.25, 967),
}

TITLES = {
    "fashion_mnist": "Fashion-MNIST",
    "cifar10_subset": "CIFAR-10 (subset)",
    "pneumoniamnist": "PneumoniaMNIST",
    "breastmnist": "BreastMNIST",
    "chestxray14_subset": "ChestX-ray14 (subset)",
}

#: The parts of the trainer that are switched, one at a time; the first is the trainer as it is.
AS_IT_IS = "as it is"
PIECES: dict[str, dict[str, Any]] = {
    AS_IT_IS: {},
    "no certainty weight": {"certainty_weight": False},
    "no class weight": {"class_weight": False},
    "soft targets": {"soft_targets": True},
    "mixup": {"mixup_alpha": 1.0},
    "refresh every 2 epochs": {"refresh_every": 2},
    "refresh every 5 epochs": {"refresh_every": 5},
    "warm start": {"warm_start": True},
    "networks of half the labels": {"hold_out": True},
}


@dataclass(frozen=True)
class Case:
    """A data set with a share of its training images labelled.

    Args:
        data (str): The name of the data set.
        percent (float): The share of labels.
        setting (Setting): How it is trained on.
        everything (bool): Whether the test images are training images without a label, as in Table 1; labels are then
            drawn as there. (default: :obj:`False`)
    """

    data: str
    percent: float
    setting: Setting = field(repr=False)
    everything: bool = False

    @property
    def title(self) -> str:
        """How tables and figures call it."""
        return f"{TITLES[self.data]}, {self.percent:g} %"

    @property
    def num_labels(self) -> int:
        """About how many labels there are."""
        return round(self.setting.images * self.percent / 100)

    def load(self) -> ImageDataset:
        """The first images of the data set, as many as take part."""
        dataset = _read(self.data, self.setting.pixels)
        if self.everything:
            every = torch.cat([dataset.train, dataset.test])
            return replace(dataset, train=every[: self.setting.images], test=every[:0])
        return replace(dataset, train=dataset.train[: self.setting.images])

    def config(self, piece: str, seed: int) -> TrainingConfig:
        """The settings of the trainer: the same for every source of pseudo-labels."""
        setting = self.setting
        passes = math.ceil(setting.warmup_steps * BATCH / (WARMUP_EPOCHS * self.num_labels))
        common: dict[str, Any] = {
            "epochs": WARMUP_EPOCHS + setting.epochs,
            "warmup_epochs": WARMUP_EPOCHS,
            "warmup_passes": passes,
            "batch_size": BATCH,
            "labelled_per_batch": LABELLED,
            "flip": setting.flip,
            "seed": seed,
        }
        return TrainingConfig(**(common | PIECES[piece]))

    def expected(self, source: str, piece: str = AS_IT_IS) -> float:
        """About how many seconds of processor time a run takes."""
        setting, config, cost = self.setting, self.config(piece, seed=0), COSTS[self.data]
        hybrid_steps = setting.epochs * math.ceil((setting.images - self.num_labels) / (BATCH - LABELLED))
        learned = hybrid_steps * (LABELLED if source == "none" else BATCH) + setting.warmup_steps * BATCH
        looks = 1 if source == "none" else math.ceil(setting.epochs / config.refresh_every) + 1
        if config.hold_out and source != "none":
            looks, learned = looks + 2, learned + 2 * setting.warmup_steps * BATCH
        looked = looks * setting.images + (config.epochs + 1) * setting.watched + cost.tested
        seconds = (learned * cost.learn + looked * cost.look) / 1000
        if source in ENERGY_SECONDS:
            seconds += looks * setting.images * (ENERGY_SECONDS[source] + GRAPH_SECONDS * setting.images)
        return seconds


@functools.cache
def _read(name: str, pixels: int) -> ImageDataset:
    root = os.environ.get("TG_CREPE_DATA")
    if not root:
        raise SystemExit("TG_CREPE_DATA must name the folder of the data sets")
    dataset = get_dataset(name, root).in_memory()
    if not pixels:
        return dataset
    images = F.adaptive_avg_pool2d(cast(Tensor, dataset.images).float(), pixels)
    return replace(dataset, images=images.round().to(torch.uint8))


def case_of(data: str, percent: float, **changes: Any) -> Case:
    """A data set with its own settings, some of them changed."""
    return Case(data, percent, replace(SETTINGS[data], **changes))
