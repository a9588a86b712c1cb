from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tg_crepe._checks import check_choice, check_count

#: What a source holds, and what a model reads.
KINDS = ("images", "texts")

#: In which numbers a model computes; see :func:`pick_precision`.
PRECISIONS = ("auto", "float32", "bfloat16", "float16")


class Encoder(ABC):
    r"""A pretrained model that turns images or texts into rows of numbers; one file of this folder per library.

    .. math::
        \mathbf{x}_i = \mathrm{encode}(\mathrm{prepare}(\text{item}_i)),

    where :meth:`prepare` works on one item in a thread of its own, and :meth:`encode` on a batch.

    Args:
        name (str): What the model is called, as a user writes it.
        batch_size (int, optional): Items at a time. (default: :obj:`64`)
        device (torch.device or str, optional): Where to compute. (default: :obj:`None`, a GPU if there is one)
        precision (str, optional): See :func:`pick_precision`. (default: :obj:`"auto"`)
    """

    kind: ClassVar[str]

    #: Whether :meth:`describe` tells the model from all others, so that a run that was killed may go on.
    known: ClassVar[bool] = True

    #: Whether :meth:`encode` takes any number of items and makes batches of them itself.
    batches: ClassVar[bool] = False

    def __init__(
        self, name: str, batch_size: int = 64, device: torch.device | str | None = None, precision: str = "auto"
    ) -> None:
        check_count("batch_size", batch_size)
        self.name = name
        self.batch_size = batch_size
        self.device = pick_device(device)
        self.precision = pick_precision(precision, self.device)

    def prepare(self, item: Any) -> Any:
        """What can be done to one item alone; threads call it."""
        return item

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> Tensor:
        """Prepared items to rows on the CPU, float32 of shape :obj:`[len(items), num_features]`."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Whatever the numbers depend on, as plain values: library, weights, preprocessing."""

    def count_too_long(self, items: Sequence[Any]) -> int:
        """How many of the items are longer than what the model reads of them."""
        return 0

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision, where it was chosen."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.precision))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, device={self.device}, precision={self.precision})"


class ImageEncoder(Encoder):
    r"""A network for images and what is done to an image first.

    Args:
        name (str): What the model is called.
        network (callable): From images of shape :obj:`[batch_size, channels, height, width]` to features of shape
            :obj:`[batch_size, num_features]`.
        transform (callable): From a :class:`PIL.Image.Image` in colour to a tensor of shape
            :obj:`[channels, height, width]`.
        **options: Those of :class:`Encoder`.
    """

    kind = "images"

    def __init__(
        self, name: str, network: Callable[[Tensor], Tensor], transform: Callable[[Any], Tensor], **options: Any
    ) -> None:
        super().__init__(name, **options)
        # Twice as fast on a CPU as the other order of the axes (EfficientNet-lite0: 83 against 184 ms an image).
        self._format = torch.channels_last
        if isinstance(network, nn.Module):
            network = network.eval().to(self.device).to(memory_format=self._format)
        self.network = network
        self.transform = transform

    def prepare(self, item: Any) -> Tensor:
        """An image to the tensor that the network reads."""
        image: Tensor = self.transform(item)
        return image

    @property
    def geometry(self) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
        """Pixels a side, mean and standard deviation of the channels of what the network reads."""
        raise ValueError(
            f"'{self.name}' does not say what size and normalisation it wants, so that it cannot be trained"
        )

    @torch.inference_mode()
    def encode(self, items: Sequence[Tensor]) -> Tensor:
        """Images, all of one shape, to features."""
        if len(shapes := {tuple(item.shape) for item in items}) > 1:
            raise ValueError(f"the transform of '{self.name}' must give images of one shape, got {sorted(shapes)[:5]}")
        batch = torch.stack(list(items)).to(self.device, memory_format=self._format)
        with self.autocast():
            x = self.network(batch)
        if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != len(items):
            got = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"'{self.name}' must give a tensor [batch_size, num_features], got {got}")
        return x.float().cpu()

    def check_size(self, shape: Sequence[int]) -> None:
        """One blank image: a network that takes one size alone says so before any work."""
        try:
            self.encode([torch.zeros(tuple(shape))])
        except (AssertionError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"'size' must be one that '{self.name}' takes, got {shape[1]} ({reason})") from error


def pick_device(device: torch.device | str | None) -> torch.device:
    """The device of that name, checked; without a name a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).cpu()  # "meta" has no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"'device' must be one that torch can use here, got {str(device)!r} ({reason})") from error
    return chosen


def pick_precision(precision: str, device: torch.device) -> str:
    r"""The numbers to compute in: :obj:`"auto"` is bfloat16 on GPUs that have it, which has the range of float32, so
    that nothing overflows, and float32 elsewhere.

    Args:
        precision (str): :obj:`"auto"`, :obj:`"float32"`, :obj:`"bfloat16"` or :obj:`"float16"` (no CPU).
        device (torch.device): Where to compute.
    """
    check_choice("precision", precision, PRECISIONS)
    if precision == "auto":
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    if precision == "float16" and device.type == "cpu":
        raise ValueError("'precision' must be float32 or bfloat16 on a CPU, got 'float16'")
    return precision
