from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tg_crepe._checks import check_count
from tg_crepe.nn.backbone import BackboneModule


class Cnn13(BackboneModule):
    r"""The 13-layer network of the semi-supervised literature, from `"Temporal Ensembling for Semi-Supervised
    Learning" <https://arxiv.org/abs/1610.02242>`_, with the normalised features of `"Label Propagation for Deep
    Semi-supervised Learning" <https://arxiv.org/abs/1904.04717>`_.

    .. math::
        3 \times 128 \to \text{pool} \to 3 \times 256 \to \text{pool} \to 512, 256, 128 \to \text{mean} \to
        \mathbf{x} / \|\mathbf{x}\|_2,

    with 3 × 3 kernels (the last two 1 × 1, the 512 without padding), batch norm and leaky ReLU of slope 0.1 after every
    convolution. The weight norm of the original is left out: batch norm undoes any scale of the weights before it.

    Args:
        in_channels (int): The number of channels of an image.
        num_classes (int): The number of classes.
        image_size (int, optional): Height and width of an image, at least 12. (default: :obj:`32`)
        dropout (float, optional): The share of entries that is dropped after each of the two pools.
            (default: :obj:`0.5`)
    """

    def __init__(self, in_channels: int, num_classes: int, image_size: int = 32, dropout: float = 0.5) -> None:
        check_count("in_channels", in_channels)
        check_count("num_classes", num_classes)
        check_count("image_size", image_size, low=12)
        super().__init__(128, num_classes)
        self.body = nn.Sequential(
            *_layer(in_channels, 128),
            *_layer(128, 128),
            *_layer(128, 128),
            nn.MaxPool2d(2),
            nn.Dropout(dropout),
            *_layer(128, 256),
            *_layer(256, 256),
            *_layer(256, 256),
            nn.MaxPool2d(2),
            nn.Dropout(dropout),
            *_layer(256, 512, padding=0),
            *_layer(512, 256, kernel=1, padding=0),
            *_layer(256, 128, kernel=1, padding=0),
        )

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to unit rows :obj:`[batch_size, 128]`."""
        return F.normalize(self.body(x).mean(dim=(2, 3)), dim=1)


def _layer(in_channels: int, out_channels: int, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
    """Convolution, norm and activation; the norm has the bias."""
    conv = nn.Conv2d(in_channels, out_channels, kernel, padding=padding, bias=False)
    return [conv, nn.BatchNorm2d(out_channels), nn.LeakyReLU(0.1)]
