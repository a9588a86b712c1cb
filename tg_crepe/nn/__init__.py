from tg_crepe.nn.backbone import Backbone, BackboneModule, as_backbone
from tg_crepe.nn.cnn13 import Cnn13
from tg_crepe.nn.registry import BACKBONES, get_backbone
from tg_crepe.nn.resnet18 import ResNet18
from tg_crepe.nn.small_cnn import SmallCnn
from tg_crepe.nn.wide_resnet import WideResNet

__all__ = [
    "BACKBONES",
    "Backbone",
    "BackboneModule",
    "Cnn13",
    "ResNet18",
    "SmallCnn",
    "WideResNet",
    "as_backbone",
    "get_backbone",
]
