from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tg_crepe._checks import check_count, check_finite_rows
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.nn.backbone import Backbone, as_backbone
from tg_crepe.training.augment import Augment, to_unit
from tg_crepe.training.processes import gather_rows

#: Images at a time.
_BATCH_SIZE = 512


@torch.no_grad()
def extract_features(
    backbone: nn.Module,
    images: Tensor | Iterable[Tensor],
    prepare: Callable[[Tensor], Tensor] = to_unit,
    batch_size: int = _BATCH_SIZE,
    output_device: torch.device | str = "cpu",
) -> Tensor:
    r"""Returns the features of all images that the graph is made of.

    .. math::
        \mathbf{x}_i = \mathrm{features}(x_i) / \|\mathrm{features}(x_i)\|_2,

    in evaluation mode and without augmentation, so that the graph does not depend on chance. A row of zeros stays.

    Args:
        backbone (torch.nn.Module): A network with :obj:`features` and :obj:`head`; afterwards each of its modules is in
            the mode in which it was.
        images (torch.Tensor or iterable of torch.Tensor): All images, of shape
            :obj:`[num_images, in_channels, height, width]`, or batches of them in order, where they do not fit into
            memory.
        prepare (callable, optional): What is done to a batch on the device of the network: the normalisation, say
            :obj:`Augment.preset("none", mean, std)`. (default: uint8 to [0, 1])
        batch_size (int, optional): The number of images at a time where they are one tensor. (default: :obj:`512`)
        output_device (torch.device or str, optional): Where the result is gathered. (default: :obj:`"cpu"`)

    Returns:
        torch.Tensor: Unit rows, of shape :obj:`[num_images, num_features]`.
    """
    network = cast(Backbone, as_backbone(backbone))
    check_count("batch_size", batch_size)
    batches = images.split(batch_size) if isinstance(images, Tensor) else images
    device = next((parameter.device for parameter in backbone.parameters()), None)
    rows = []
    with _evaluating(backbone):
        for batch in batches:
            x = network.features(prepare(batch.to(device) if device is not None else batch))
            if x.dim() != 2:
                raise ValueError(f"'backbone.features' must give [batch_size, num_features], got {list(x.shape)}")
            # Half precision is too coarse to tell neighbours apart.
            x = x.to(torch.promote_types(x.dtype, torch.float32))
            rows.append(F.normalize(x, dim=1).to(output_device))
    if not rows:
        raise ValueError("'images' must hold at least one batch, got none")
    features = torch.cat(rows)
    check_finite_rows("features", features)
    return features


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; parts that a user froze on purpose stay frozen after it."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class NetworkView:
    r"""What a source of pseudo-labels sees of the network: features and outputs of all training images, in evaluation
    mode and without augmentation, shared out over the processes.

    Args:
        accelerator (accelerate.Accelerator): The processes.
        network (torch.nn.Module): The network, as the accelerator has prepared it.
        dataset (ImageDataset): The images.
        check (callable): Raises where the largest of the outputs is not finite.
    """

    def __init__(
        self, accelerator: Any, network: nn.Module, dataset: ImageDataset, check: Callable[[Tensor], None]
    ) -> None:
        self._accelerator = accelerator
        self._network = accelerator.unwrap_model(network)
        self._dataset = dataset
        self._check = check
        self._prepare = Augment.preset("none", dataset.mean, dataset.std)

    def features(self) -> Tensor:
        """Unit rows of shape :obj:`[num_images, num_features]`."""
        device = self._accelerator.device
        # Neighbours are ranked in double precision, which not every accelerator has.
        place = device if device.type == "cuda" else "cpu"

        def compute(part: Tensor) -> Tensor:
            return extract_features(self._network, self._batches(part), self._prepare, output_device=place)

        return self._gather(self._dataset.train, compute)

    def logits(self) -> Tensor:
        """Outputs on the CPU, of shape :obj:`[num_images, num_classes]`."""
        return self._logits(self._dataset.train)

    def test_logits(self) -> Tensor | None:
        """The same for the test images, where there are any; for the log alone."""
        return self._logits(self._dataset.test) if len(self._dataset.test) else None

    def _logits(self, index: Tensor) -> Tensor:
        device = self._accelerator.device

        def compute(part: Tensor) -> Tensor:
            batches = [self._network(self._prepare(batch.to(device))).float().cpu() for batch in self._batches(part)]
            return torch.cat(batches)

        with _evaluating(self._network):
            logits = self._gather(index, compute)
        self._check(logits.abs().max())
        return logits

    def _batches(self, index: Tensor) -> Iterator[Tensor]:
        return (self._dataset.fetch(part) for part in index.split(_BATCH_SIZE))

    @torch.no_grad()
    def _gather(self, index: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        with self._accelerator.autocast():
            return gather_rows(self._accelerator, index, compute)


def probabilities(logits: Tensor, multi_label: bool) -> Tensor:
    """The softmax of classes, or the sigmoid of every finding."""
    return logits.sigmoid() if multi_label else logits.softmax(dim=1)
