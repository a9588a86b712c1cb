from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tg_crepe._checks import check_count, check_finite_rows
from tg_crepe.nn.backbone import Backbone, as_backbone
from tg_crepe.training.augment import to_unit


@torch.no_grad()
def extract_features(
    backbone: nn.Module,
    images: Tensor | Iterable[Tensor],
    prepare: Callable[[Tensor], Tensor] = to_unit,
    batch_size: int = 512,
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
