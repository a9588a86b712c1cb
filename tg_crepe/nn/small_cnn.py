from __future__ import annotations

from torch import Tensor, nn

from tg_crepe._checks import check_count
from tg_crepe.nn.backbone import BackboneModule


class SmallCnn(BackboneModule):
    r"""A network of about 94,000 weights that a CPU trains in little time.

    .. math::
        32 \to \text{pool} \to 64 \to \text{pool} \to 128 \to \text{mean},

    3 × 3 convolutions, each with batch norm and ReLU.

    Args:
        in_channels (int): The number of channels of an image.
        num_classes (int): The number of classes.
        image_size (int, optional): Height and width of an image, at least 4. (default: :obj:`28`)
        norm (bool, optional): Whether to use batch norm. Without it the loss of an image does not depend on the rest of
            its batch, so that the gradients of a batch that is split over processes add up exactly.
            (default: :obj:`True`)
    """

    def __init__(self, in_channels: int, num_classes: int, image_size: int = 28, norm: bool = True) -> None:
        check_count("in_channels", in_channels)
        check_count("num_classes", num_classes)
        check_count("image_size", image_size, low=4)
        super().__init__(128, num_classes)
        self.body = nn.Sequential(
            *_layer(in_channels, 32, norm),
            nn.MaxPool2d(2),
            *_layer(32, 64, norm),
            nn.MaxPool2d(2),
            *_layer(64, 128, norm),
        )

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, 128]`."""
        x = self.body(x)
        return x.mean(dim=(2, 3))


def _layer(in_channels: int, out_channels: int, norm: bool) -> list[nn.Module]:
    """Convolution, norm if wanted, and activation; the norm has the bias."""
    conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=not norm)
    return [conv, nn.BatchNorm2d(out_channels), nn.ReLU()] if norm else [conv, nn.ReLU()]
