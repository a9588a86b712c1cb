from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._checks import check_tensor, first_indices
from tg_crepe._files import check_unique
from tg_crepe.datasets.image_files import ImageFiles

_BATCH = 256  # images at a time wherever all of them are read
_SAMPLE = 2000  # files that mean and deviation are taken from; reading 112,120 X-rays for them would take an hour


@dataclass(frozen=True, eq=False)
class ImageDataset:
    r"""Images, their labels and the official split: what every loader of :mod:`tg_crepe.datasets` returns.

    .. code-block:: python

        dataset = get_dataset("fashion_mnist", root="data")
        batch = dataset.fetch(dataset.train[:100])  # uint8, [100, 1, 28, 28]
        y = dataset.targets[dataset.train[:100]]

    Args:
        name (str): The data set, with :obj:`"(subset)"` where it is a part of the one that papers report on.
        images (Tensor or ImageFiles): Bytes of shape :obj:`[N, channels, height, width]`, or files that are decoded
            when they are asked for.
        targets (Tensor): Classes of shape :obj:`[N]`, :obj:`-1` where unknown; for several labels per image, 0 or 1
            (:obj:`-1` where unknown) of shape :obj:`[N, num_classes]`.
        train (Tensor): Indices of the training images.
        test (Tensor): Indices of the test images; empty where there are none.
        class_names (tuple[str, ...]): The names of the classes or findings.
        ids (tuple[str, ...]): One name for each image, such as its file's.
        val (Tensor, optional): Indices of the validation images. (default: :obj:`None`)
        multi_label (bool, optional): Whether an image may have several labels. (default: :obj:`False`)
        groups (tuple[str, ...], optional): The patient of each image. (default: :obj:`None`)
    """

    name: str
    images: Tensor | ImageFiles
    targets: Tensor
    train: Tensor
    test: Tensor
    class_names: tuple[str, ...]
    ids: tuple[str, ...]
    val: Tensor | None = None
    multi_label: bool = False
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._check_images()
        if len(self.images) == 0:
            raise ValueError(f"'images' of '{self.name}' must hold at least one image, got none")
        self._check_targets()
        self._check_split()
        for what, names in (("ids", self.ids), ("groups", self.groups)):
            if names is not None and len(names) != len(self):
                raise ValueError(f"'{what}' must have one entry for each of {len(self)} images, got {len(names)}")
        check_unique(self.name, "the image", self.ids)

    def _check_images(self) -> None:
        if isinstance(self.images, Tensor) and (self.images.dim() != 4 or self.images.dtype != torch.uint8):
            got = f"{self.images.dtype} {list(self.images.shape)}"
            raise ValueError(f"'images' must be uint8 of shape [N, channels, height, width], got {got}")

    def _check_targets(self) -> None:
        shape = (len(self), self.num_classes) if self.multi_label else (len(self),)
        targets = check_tensor("targets", self.targets)
        if targets.dtype != torch.long or targets.shape != shape:
            got = f"{targets.dtype} {list(targets.shape)}"
            raise ValueError(f"'targets' of '{self.name}' must be torch.int64 of shape {list(shape)}, got {got}")
        high = 1 if self.multi_label else self.num_classes - 1
        bad = ((targets < -1) | (targets > high)).view(len(self), -1).any(dim=1)
        if bool(bad.any()):
            raise ValueError(f"'targets' of '{self.name}' must be in [-1, {high}], not so at {first_indices(bad)}")

    def _check_split(self) -> None:
        times = torch.zeros(len(self), dtype=torch.long)
        for what in ("train", "test", "val"):
            index = getattr(self, what)
            if index is None:
                continue
            if check_tensor(what, index).dim() != 1 or index.dtype != torch.long:
                raise ValueError(f"'{what}' must be torch.int64 indices, got {index.dtype} {list(index.shape)}")
            if index.numel() and (int(index.min()) < 0 or int(index.max()) >= len(self)):
                got = f"{int(index.min())} to {int(index.max())}"
                raise ValueError(f"'{what}' must be indices in [0, {len(self) - 1}], got {got}")
            times += index.bincount(minlength=len(self))
        if bool((times > 1).any()):
            twice = self.ids[int(times.argmax())]
            raise ValueError(
                f"'{self.name}' must use an image once in train, test and val, '{twice}' stands there twice"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def num_classes(self) -> int:
        """The number of classes or findings."""
        return len(self.class_names)

    def fetch(self, index: Tensor) -> Tensor:
        r"""The images of an index tensor, without a look at their labels.

        Args:
            index (Tensor): Indices of shape :obj:`[count]`.

        Returns:
            Bytes of shape :obj:`[count, channels, height, width]`.
        """
        return self.images[index]

    def in_memory(self) -> ImageDataset:
        """The same data set with every image decoded, for training that reads each of them many times."""
        if isinstance(self.images, Tensor):
            return self
        images = torch.empty(self.images.shape, dtype=torch.uint8)
        batches = torch.arange(len(self)).split(_BATCH)
        for index in tqdm(batches, desc=f"reading {self.name}", disable=None):
            images[index] = self.images[index]
        return replace(self, images=images)

    @cached_property
    def _statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        index = self.train
        if isinstance(self.images, ImageFiles) and len(index) > _SAMPLE:
            index = index[torch.linspace(0, len(index) - 1, _SAMPLE, dtype=torch.float64).round().long()]
        # Counts of the 256 values: exact whatever the order, and small.
        counts = torch.zeros(self.images.shape[1], 256, dtype=torch.long)
        for part in index.split(_BATCH):
            channels = self.fetch(part).transpose(0, 1).flatten(1)
            counts += torch.stack([channel.bincount(minlength=256) for channel in channels])
        value = torch.arange(256, dtype=torch.float64) / 255
        share = counts.double() / counts.sum(dim=1, keepdim=True).clamp(min=1)
        mean = share @ value
        std = (share * (value - mean.unsqueeze(1)).square()).sum(dim=1).sqrt()
        std = torch.where(std > 0, std, 1.0)  # a blank channel is left as it is
        return tuple(mean.tolist()), tuple(std.tolist())

    @property
    def mean(self) -> tuple[float, ...]:
        """The channels' means over the training images in [0, 1]; of files, over 2,000 evenly spread ones at most."""
        return self._statistics[0]

    @property
    def std(self) -> tuple[float, ...]:
        """The channels' standard deviations over the same images; 1 for a channel without variation."""
        return self._statistics[1]

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.images.shape[1:]))
        parts = [
            f"{len(index)} {what}" for what in ("train", "val", "test") if (index := getattr(self, what)) is not None
        ]
        kind = "findings" if self.multi_label else "classes"
        return f"{type(self).__name__}({self.name}, {', '.join(parts)}, {shape}, {self.num_classes} {kind})"
