from __future__ import annotations

from importlib import import_module
from typing import Any

from tg_crepe._checks import check_choice, check_count
from tg_crepe.nn._seeding import seeded
from tg_crepe.nn.backbone import BackboneModule

#: The networks by name: the name is that of the file in this folder, the value that of the class in it.
BACKBONES = {
    "cnn13": "Cnn13",
    "wide_resnet": "WideResNet",
    "resnet18": "ResNet18",
    "small_cnn": "SmallCnn",
}


def get_backbone(
    name: str, in_channels: int, num_classes: int, image_size: int, seed: int = 0, **options: Any
) -> BackboneModule:
    r"""Makes a network by its name, with weights drawn from a seed.

    .. code-block:: python

        from tg_crepe.nn import get_backbone

        model = get_backbone("wide_resnet", in_channels=3, num_classes=10, image_size=32)

    Args:
        name (str): :obj:`"cnn13"`, :obj:`"wide_resnet"`, :obj:`"resnet18"` or :obj:`"small_cnn"`.
        in_channels (int): The number of channels of an image.
        num_classes (int): The number of classes or findings.
        image_size (int): Height and width of an image.
        seed (int, optional): The seed of the first weights; the global generator is left as it was.
            (default: :obj:`0`)
        **options: Further arguments of the network.
    """
    check_choice("name", name, BACKBONES)
    check_count("seed", seed, low=0)
    network = getattr(import_module(f"tg_crepe.nn.{name}"), BACKBONES[name])
    with seeded(seed):
        model: BackboneModule = network(in_channels, num_classes, image_size, **options)
    return model
