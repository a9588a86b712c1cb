from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tg_crepe._checks import check_choice, check_count
from tg_crepe._optional import require
from tg_crepe.embed.encoder import KINDS, Encoder, ImageEncoder
from tg_crepe.embed.weights import weights_checksum

#: Mean and standard deviation of ImageNet's channels, which most networks for images were trained with.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class NetworkEncoder(ImageEncoder):
    r"""Your own :class:`torch.nn.Module` for images.

    Args:
        network (torch.nn.Module): From images of shape :obj:`[batch_size, 3, size, size]` to features of shape
            :obj:`[batch_size, num_features]`; it is put into evaluation mode and stays on its device, unless another
            is named.
        transform (callable, optional): From a Pillow image to a tensor :obj:`[channels, height, width]`.
            (default: :obj:`None`, resized to a square and normalised as for ImageNet)
        size (int, optional): Pixels a side of that square. (default: :obj:`224`)
        **options: Those of :class:`~tg_crepe.embed.Encoder`.
    """

    known = False  # the weights may be the same and the code another

    def __init__(
        self, network: nn.Module, transform: Callable[[Any], Tensor] | None = None, size: int = 224, **options: Any
    ) -> None:
        check_count("size", size)
        self._preprocessing = f"resized to {size} x {size}, ImageNet's mean" if transform is None else _name(transform)
        if options.get("device") is None and (parameter := next(network.parameters(), None)) is not None:
            options["device"] = parameter.device
        super().__init__(type(network).__name__, network, transform or _plain_transform(size), **options)
        self._checksum = weights_checksum(network.state_dict())

    def describe(self) -> dict[str, Any]:
        """The weights and the preprocessing."""
        return {"library": "torch", "weights": self._checksum, "preprocessing": self._preprocessing, "versions": {}}


class FunctionEncoder(Encoder):
    r"""Any function of a list of images or texts.

    .. code-block:: python

        from tg_crepe.embed import embed, get_encoder

        lengths = get_encoder(lambda texts: [[len(text)] for text in texts], kind="texts")
        embed(["a", "few", "texts"], lengths).x

    Args:
        function (callable): From a list of texts, or of Pillow images in colour, to an array or tensor of shape
            :obj:`[len(items), num_features]`.
        kind (str): :obj:`"images"` or :obj:`"texts"`.
        **options: Those of :class:`~tg_crepe.embed.Encoder`.
    """

    known = False  # another function may have the same name

    def __init__(self, function: Callable[[list[Any]], Any], kind: str, **options: Any) -> None:
        check_choice("kind", kind, KINDS)
        super().__init__(_name(function), **options)
        self.kind = kind  # type: ignore[misc]  # of this function, not of the class
        self.function = function

    def encode(self, items: Sequence[Any]) -> Tensor:
        """What the function gives, checked."""
        rows = self.function(list(items))
        x = rows.detach().cpu() if isinstance(rows, Tensor) else torch.from_numpy(np.asarray(rows, np.float32))
        if x.dim() != 2 or len(x) != len(items):
            raise ValueError(f"'{self.name}' must give [{len(items)}, num_features], got {list(x.shape)}")
        return x.float()

    def describe(self) -> dict[str, Any]:
        """The function's name: no more is known of it."""
        return {"library": "Python", "function": self.name, "versions": {}}


def _name(function: Any) -> str:
    """What a function is called, without the place in memory that its text would have."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def _plain_transform(size: int) -> Callable[[Any], Tensor]:
    """Resized to a square, in [0, 1], normalised as for ImageNet."""
    bicubic = require("PIL.Image", extra="vision").Resampling.BICUBIC
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _STD))

    def transform(image: Any) -> Tensor:
        pixels = np.array(image.resize((size, size), bicubic)).transpose(2, 0, 1)
        return (torch.from_numpy(pixels.copy()).float() / 255 - mean) / std

    return transform
