from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tg_crepe._checks import check_choice
from tg_crepe.datasets.medmnist import MEDMNIST
from tg_crepe.training.config import TrainingConfig

#: Values of :class:`TrainingConfig` that the paper states for all its data sets; any other value is ours.
_STATED = frozenset({"epochs", "k", "learning_rate", "weight_decay"})


@dataclass(frozen=True)
class Preset:
    r"""Settings for one data set, each marked as the paper's or ours.

    Args:
        config (TrainingConfig): The settings of the trainer.
        backbone (str): The network.
        labels (int or float): How many labels.
        unit (str): What they are counted in, see :class:`~tg_crepe.datasets.RandomLabelSplit`.
        size (int, optional): Pixels per side for data sets that are read from files; :obj:`None` where the images have
            one size. (default: :obj:`None`)
        from_paper (frozenset): The names of the values above, and of those in ``config``, that the paper states.
            (default: none)
    """

    config: TrainingConfig
    backbone: str
    labels: int | float
    unit: str
    size: int | None = None
    from_paper: frozenset[str] = frozenset()

    def origin(self, name: str) -> str:
        """:obj:`"paper"` or :obj:`"ours"`, for the name of a value."""
        return "paper" if name in self.from_paper else "ours"


def _paper(backbone: str, labels: float, unit: str, stated: str, size: int | None = None, **ours: Any) -> Preset:
    """A preset with the paper's general values; ``stated`` names what else of it is the paper's."""
    from_paper = _STATED | frozenset(stated.split())
    return Preset(TrainingConfig(**ours), backbone, labels, unit, size, from_paper)


def _cpu(labels: float, unit: str, size: int | None = None, **ours: Any) -> Preset:
    """A preset of the small network and few epochs: ours, but for the paper's k, rate and weight decay."""
    config = TrainingConfig(**{"epochs": 12, "warmup_epochs": 4, **ours})
    return Preset(config, "small_cnn", labels, unit, size, _STATED - {"epochs"})


#: A digit has a left and a right, and a chest has its heart on one side.
_NO_FLIP: dict[str, Any] = {"flip": False}

#: Presets by data set and name. The paper trains hybrid models on CIFAR-10/100, Mini-ImageNet, ChestX-ray14 and
#: CBIS-DDSM; on Fashion-MNIST it reports the energy alone, and on the others nothing, so their networks are ours.
_TABLE: Mapping[str, Mapping[str, Preset]] = {
    "digits": {
        "paper": _paper("small_cnn", 5, "per_class", "", **_NO_FLIP),
        "cpu": _cpu(5, "per_class", epochs=30, warmup_epochs=10, **_NO_FLIP),
    },
    "fashion_mnist": {
        "paper": _paper("cnn13", 1, "percent", "labels unit"),
        "cpu": _cpu(1, "percent"),
    },
    "cifar10": {
        "paper": _paper("cnn13", 4000, "total", "backbone labels unit"),
        "paper_wrn": _paper("wide_resnet", 4000, "total", "backbone labels unit augmentation", augmentation="strong"),
        "cpu": _cpu(4000, "total"),
    },
    "cifar100": {
        "paper": _paper("cnn13", 10000, "total", "backbone labels unit"),
        "paper_wrn": _paper("wide_resnet", 10000, "total", "backbone labels unit augmentation", augmentation="strong"),
        "cpu": _cpu(10000, "total"),
    },
    "mini_imagenet": {
        "paper": _paper("resnet18", 10000, "total", "backbone labels unit size", size=64),
        "cpu": _cpu(10000, "total", size=32),
    },
    "chestxray14": {
        "paper": _paper("resnet18", 20, "percent", "backbone labels unit", size=64, **_NO_FLIP),
        "cpu": _cpu(20, "percent", size=64, **_NO_FLIP),
    },
    "cbis_ddsm": {
        "paper": _paper("resnet18", 40, "percent", "backbone labels unit", size=64),
        "cpu": _cpu(40, "percent", size=64),
    },
    "medmnist": {
        "paper": _paper("resnet18", 10, "percent", "", **_NO_FLIP),
        "cpu": _cpu(10, "percent", **_NO_FLIP),
    },
    "custom": {
        "paper": _paper("wide_resnet", 10, "percent", "", size=32),
        "cpu": _cpu(10, "percent", size=32),
    },
}

#: The names of the presets; :obj:`"paper_wrn"` is there for CIFAR-10 and CIFAR-100 alone.
PRESETS = ("paper", "paper_wrn", "cpu")


def get_preset(dataset: str, name: str = "cpu") -> Preset:
    r"""The settings for a data set.

    .. code-block:: python

        preset = get_preset("cifar10", "paper")
        preset.config.epochs, preset.origin("epochs")  # 310, "paper"
        preset.config.batch_size, preset.origin("batch_size")  # 100, "ours"

    Args:
        dataset (str): The name of a data set, as :func:`~tg_crepe.datasets.get_dataset` takes it. An image folder, a
            :obj:`.npz` file or any other name has the preset :obj:`"custom"`.
        name (str, optional): :obj:`"paper"`, the values of the paper where it states them; :obj:`"paper_wrn"`, its
            second network for CIFAR, with RandAugment; or :obj:`"cpu"`, which two cores train in minutes to an hour.
            (default: :obj:`"cpu"`)
    """
    key = "medmnist" if dataset in MEDMNIST else dataset.removesuffix("_subset").removesuffix(" (subset)")
    presets = _TABLE.get(key, _TABLE["custom"])
    check_choice("name", name, presets)
    return presets[name]
