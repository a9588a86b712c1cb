from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe._files import damaged_file, read_text
from tg_crepe.datasets.image_dataset import ImageDataset


def _checksum(dataset: ImageDataset) -> str:
    """Of the training images' names in order: it tells data sets apart and does not depend on any label."""
    return hashlib.sha256("\n".join(dataset.ids[i] for i in dataset.train.tolist()).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class LabelSplit:
    r"""Which training images count as labelled.

    Args:
        train_mask (Tensor): Bool of shape :obj:`[len(dataset.train)]`: the labelled ones among the training images.
        dataset (str): The name of the data set.
        checksum (str): The checksum of the training images' names.
        settings (RandomLabelSplit): How the split was drawn.
    """

    train_mask: Tensor
    dataset: str
    checksum: str
    settings: RandomLabelSplit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the split as JSON; a reader sees the old file or the whole new one, never a part."""
        content = {
            "dataset": self.dataset,
            "checksum": self.checksum,
            "num_images": len(self.train_mask),
            "settings": asdict(self.settings),
            "labelled": self.train_mask.nonzero().view(-1).tolist(),
        }
        temporary = Path(path).with_name(f"{Path(path).name}.{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], dataset: ImageDataset) -> LabelSplit:
        """Reads a split, and raises unless it was drawn on the same training images in the same order."""
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"the split '{file}' is missing")
        try:
            content: dict[str, Any] = json.loads(read_text(file))
            name, checksum, count = content["dataset"], content["checksum"], content["num_images"]
            settings, labelled = RandomLabelSplit(**content["settings"]), torch.tensor(content["labelled"])
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise damaged_file(file, f"it is not a whole saved split ({error})") from error
        if checksum != _checksum(dataset) or count != len(dataset.train):
            raise damaged_file(
                file,
                f"it was drawn on the {count} training images of '{name}', which are not the {len(dataset.train)} of "
                f"'{dataset.name}'",
            )
        integers = labelled.dim() == 1 and labelled.dtype == torch.long and labelled.numel() > 0
        if not integers or not 0 <= int(labelled.min()) <= int(labelled.max()) < count:
            raise damaged_file(file, f"'labelled' must be indices in [0, {count - 1}]")
        mask = torch.zeros(count, dtype=torch.bool)
        mask[labelled] = True
        return cls(mask, name, checksum, settings)


def _shares(available: Tensor, total: int) -> Tensor:
    r"""Labels of each class: proportional to its images (largest remainders), at least one and at most all of them."""
    exact = available.double() * total / available.sum()
    shares = torch.minimum(exact.floor().long().clamp(min=1), available)
    while (left := total - int(shares.sum())) != 0:
        # Too many are there only where small classes were lifted to one: the class furthest above its share gives.
        gap = exact - shares
        movable = shares < available if left > 0 else shares > 1
        gap = torch.where(movable, gap if left > 0 else -gap, -torch.inf)
        shares[gap.argmax()] += 1 if left > 0 else -1
    return shares


@dataclass(frozen=True)
class RandomLabelSplit:
    r"""Draws the training images that count as labelled.

    .. code-block:: python

        split = RandomLabelSplit(4000, seed=0).draw(dataset)
        split.train_mask                  # bool, [len(dataset.train)]
        split.save("split.json")
        split = LabelSplit.load("split.json", dataset)

    One label per image: stratified, each class gets its share of the labels and at least one, even where the per cent
    come to fewer. Several labels per image: a random draw in which every finding has at least one labelled image that
    shows it, as far as there are such images and labels enough; the rarest finding comes first. Images without a known
    label are never drawn.

    Args:
        labels (int or float): How many.
        unit (str, optional): :obj:`"total"`, :obj:`"per_class"` or :obj:`"percent"` (of the training images with a
            known label). (default: :obj:`"total"`)
        seed (int, optional): The seed of the draw. (default: :obj:`0`)
    """

    labels: int | float
    unit: str = "total"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, ("total", "per_class", "percent"))
        check_count("seed", self.seed, low=0)
        if self.unit != "percent":
            check_count("labels", self.labels)
            return
        check_positive("labels", self.labels)
        if self.labels > 100:
            raise ValueError(f"'labels' must be in (0, 100] per cent, got {self.labels!r}")

    def draw(self, dataset: ImageDataset) -> LabelSplit:
        r"""Draws a split of the training images.

        Args:
            dataset (ImageDataset): The data set; its labels are needed to draw by class.
        """
        targets = dataset.targets[dataset.train]
        known = (targets >= 0).view(len(targets), -1).any(dim=1)
        if not bool(known.any()):
            raise ValueError(f"'dataset' must have training images with a known label, '{dataset.name}' has none")
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(self.seed))
        order = order[known[order]]
        chosen = self._draw_findings(targets, order) if dataset.multi_label else self._draw_classes(targets, order)
        mask = torch.zeros(len(targets), dtype=torch.bool)
        mask[chosen] = True
        return LabelSplit(mask, dataset.name, _checksum(dataset), self)

    def _total(self, available: int) -> int:
        total = round(self.labels * available / 100) if self.unit == "percent" else int(self.labels)
        if total > available:
            raise ValueError(
                f"'labels' must be at most the {available} training images with a known label, got {total}"
            )
        return max(total, 1)

    def _draw_classes(self, targets: Tensor, order: Tensor) -> Tensor:
        classes, available = targets[order].unique(return_counts=True)
        if self.unit == "per_class":
            if int(self.labels) > int(available.min()):
                least = f"class {int(classes[available.argmin()])} has {int(available.min())} training images"
                raise ValueError(f"'labels' must be at most the images of every class, got {self.labels}: {least}")
            shares = torch.full_like(available, int(self.labels))
        else:
            total = self._total(len(order))
            if self.unit == "percent":
                total = max(total, len(classes))
            if total < len(classes):
                raise ValueError(f"'labels' must be at least one for each of {len(classes)} classes, got {total}")
            shares = _shares(available, total)
        return torch.cat([order[targets[order] == c][:n] for c, n in zip(classes, shares.tolist(), strict=True)])

    def _draw_findings(self, targets: Tensor, order: Tensor) -> Tensor:
        if self.unit == "per_class":
            raise ValueError(
                "'unit' must be 'total' or 'percent' where an image may have several labels, got 'per_class'"
            )
        total, positive = self._total(len(order)), targets[order] == 1
        first: list[int] = []  # places in the order that are drawn before all others
        for finding in positive.sum(dim=0).argsort(stable=True).tolist():
            shown = positive[:, finding].nonzero().view(-1)
            if len(first) < total and len(shown) and not bool(positive[first, finding].any()):
                first.append(int(shown[0]))
        others = torch.ones(len(order), dtype=torch.bool)
        others[first] = False
        return torch.cat([order[first], order[others]])[:total]
