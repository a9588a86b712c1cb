from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tg_crepe._checks import check_count
from tg_crepe.nn.backbone import BackboneModule

#: The slope of the leaky ReLU, that of "Realistic Evaluation of Deep Semi-Supervised Learning Algorithms".
_SLOPE = 0.1


class WideResNet(BackboneModule):
    r"""The wide residual network of `"Wide Residual Networks" <https://arxiv.org/abs/1605.07146>`_, by default
    WRN-28-2 as `"Realistic Evaluation of Deep Semi-Supervised Learning Algorithms" <https://arxiv.org/abs/1804.09170>`_
    uses it (leaky ReLU of slope 0.1).

    .. math::
        16 \to n \times 16w \to n \times 32w \to n \times 64w \to \text{mean}, \qquad n = (\text{depth} - 4) / 6,

    where :math:`w` is the width, and every one of the :math:`n` blocks adds two pre-activated 3 × 3 convolutions.

    Args:
        in_channels (int): The number of channels of an image.
        num_classes (int): The number of classes.
        image_size (int, optional): Height and width of an image, at least 4. (default: :obj:`32`)
        depth (int, optional): The number of layers, :math:`6 n + 4`. (default: :obj:`28`)
        width (int, optional): The factor of the number of channels. (default: :obj:`2`)
    """

    def __init__(
        self, in_channels: int, num_classes: int, image_size: int = 32, depth: int = 28, width: int = 2
    ) -> None:
        check_count("in_channels", in_channels)
        check_count("num_classes", num_classes)
        check_count("image_size", image_size, low=4)
        check_count("depth", depth, low=10)
        check_count("width", width)
        if (depth - 4) % 6:
            raise ValueError(f"'depth' must be 6 n + 4 (10, 16, 22, 28, …), got {depth}")
        super().__init__(64 * width, num_classes)
        blocks: list[nn.Module] = []
        channels = 16
        for group, out_channels in enumerate((16 * width, 32 * width, 64 * width)):
            for block in range((depth - 4) // 6):
                blocks.append(_Block(channels, out_channels, stride=2 if group > 0 and block == 0 else 1))
                channels = out_channels
        self.stem = _conv3x3(in_channels, 16)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=_SLOPE, mode="fan_out", nonlinearity="leaky_relu")

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, num_features]`."""
        x = F.leaky_relu(self.norm(self.blocks(self.stem(x))), _SLOPE)
        return x.mean(dim=(2, 3))


class _Block(nn.Module):
    """Two pre-activated convolutions beside a shortcut, which is a 1 × 1 convolution where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv1 = _conv3x3(in_channels, out_channels, stride)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.conv2 = _conv3x3(out_channels, out_channels)
        self.shortcut: nn.Conv2d | None = None
        if in_channels != out_channels or stride != 1:
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(x), _SLOPE)
        out: Tensor = self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), _SLOPE))
        return out + (x if self.shortcut is None else self.shortcut(active))


def _conv3x3(in_channels: int, out_channels: int, stride: int = 1) -> nn.Conv2d:
    """A 3 × 3 convolution without bias: a norm follows."""
    return nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
