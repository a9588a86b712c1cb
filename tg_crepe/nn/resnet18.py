from __future__ import annotations

from torch import Tensor, nn

from tg_crepe._checks import check_count
from tg_crepe._optional import require
from tg_crepe.nn.backbone import BackboneModule

#: Up to this size the stem keeps the resolution, so that 32 pixels end in a map of 4 × 4.
_SMALL = 48

#: Up to this size the stem halves the resolution once (64 pixels end in 4 × 4); above it is torchvision's own, by 4.
_MEDIUM = 112


class ResNet18(BackboneModule):
    r"""The 18-layer network of `"Deep Residual Learning for Image Recognition" <https://arxiv.org/abs/1512.03385>`_,
    torchvision's architecture without weights, with a stem that fits small images.

    A 3 × 3 convolution without pooling takes the place of the 7 × 7 one and its pool: of stride 1 for images of up to
    48 pixels, of stride 2 up to 112. Larger images keep the stem of torchvision. Needs the extra :obj:`vision`.

    Args:
        in_channels (int): The number of channels of an image.
        num_classes (int): The number of classes.
        image_size (int, optional): Height and width of an image, at least 8. (default: :obj:`64`)
    """

    def __init__(self, in_channels: int, num_classes: int, image_size: int = 64) -> None:
        check_count("in_channels", in_channels)
        check_count("num_classes", num_classes)
        check_count("image_size", image_size, low=8)
        models = require("torchvision.models", extra="vision")
        super().__init__(512, num_classes)
        self.body = models.resnet18(weights=None)
        self.body.fc = nn.Identity()
        if image_size <= _MEDIUM:
            stride = 1 if image_size <= _SMALL else 2
            self.body.conv1 = nn.Conv2d(in_channels, 64, 3, stride=stride, padding=1, bias=False)
            self.body.maxpool = nn.Identity()
        else:
            self.body.conv1 = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(self.body.conv1.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, 512]`."""
        features: Tensor = self.body(x)
        return features
