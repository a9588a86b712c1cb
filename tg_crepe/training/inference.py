from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.training.augment import Augment
from tg_crepe.training.features import _evaluating, extract_features
from tg_crepe.training.processes import gather_rows

#: Images at a time.
_BATCH_SIZE = 512


class Inference:
    r"""Features and outputs of a network in evaluation mode and without augmentation, shared out over the processes.

    Args:
        accelerator (accelerate.Accelerator): The processes.
        network (torch.nn.Module): The network, as the accelerator has prepared it.
        dataset (ImageDataset): The images.
    """

    def __init__(self, accelerator: Any, network: nn.Module, dataset: ImageDataset) -> None:
        self._accelerator = accelerator
        self._network = accelerator.unwrap_model(network)
        self._dataset = dataset
        self._prepare = Augment.preset("none", dataset.mean, dataset.std)

    def features(self, index: Tensor) -> Tensor:
        """Unit rows of shape :obj:`[num_images, num_features]` for indices of images."""
        device = self._accelerator.device
        # Neighbours are ranked in double precision, which not every accelerator has.
        place = device if device.type == "cuda" else "cpu"

        def compute(part: Tensor) -> Tensor:
            return extract_features(self._network, self._batches(part), self._prepare, output_device=place)

        return self._gather(index, compute)

    def logits(self, index: Tensor) -> Tensor:
        """Outputs on the CPU of shape :obj:`[num_images, num_classes]` for indices of images."""
        device = self._accelerator.device

        def compute(part: Tensor) -> Tensor:
            batches = [self._network(self._prepare(batch.to(device))).float().cpu() for batch in self._batches(part)]
            return torch.cat(batches)

        with _evaluating(self._network):
            return self._gather(index, compute)

    def _batches(self, index: Tensor) -> Iterator[Tensor]:
        return (self._dataset.fetch(part) for part in index.split(_BATCH_SIZE))

    @torch.no_grad()
    def _gather(self, index: Tensor, compute: Any) -> Tensor:
        with self._accelerator.autocast():
            return gather_rows(self._accelerator, index, compute)


def probabilities(logits: Tensor, multi_label: bool) -> Tensor:
    """The softmax of classes, or the sigmoid of every finding."""
    return logits.sigmoid() if multi_label else logits.softmax(dim=1)
