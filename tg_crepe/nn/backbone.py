from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Backbone(Protocol):
    r"""What the hybrid framework asks of a network: features for the graph, and classes from the features.

    .. math::
        f_\theta(x) = \mathrm{head}(\mathrm{features}(x)),

    Any :class:`torch.nn.Module` with these two is welcome; :func:`as_backbone` gives it a :meth:`forward` if it has
    none.
    """

    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, num_features]`."""

    def head(self, features: Tensor) -> Tensor:
        """Features of shape :obj:`[batch_size, num_features]` to logits :obj:`[batch_size, num_classes]`."""


class BackboneModule(nn.Module, ABC):
    r"""The base of the networks of this package: a body that makes features, and a linear head.

    Args:
        num_features (int): The width of the features.
        num_classes (int): The number of classes or findings.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.num_classes = num_classes
        self.head = nn.Linear(num_features, num_classes)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, num_features]`."""

    def forward(self, x: Tensor) -> Tensor:
        """Images of shape :obj:`[batch_size, in_channels, height, width]` to :obj:`[batch_size, num_classes]`."""
        logits: Tensor = self.head(self.features(x))
        return logits


class _WithForward(nn.Module):
    """A user's module that has the two parts of a backbone and no forward pass of its own."""

    module: Any

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.module.features(x)
        return features

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.module.head(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def as_backbone(module: nn.Module) -> nn.Module:
    r"""Returns ``module`` if it can be trained as it is, or the same module with a forward pass.

    Args:
        module (torch.nn.Module): A network with :obj:`features(x)` and :obj:`head(features)`.
    """
    if not isinstance(module, nn.Module):
        raise ValueError(f"'module' must be a torch.nn.Module, got {type(module).__name__}")
    missing = [name for name in ("features", "head") if not callable(getattr(module, name, None))]
    if missing:
        raise ValueError(
            f"'module' must have features(x) and head(features), got {type(module).__name__} without "
            f"{' and '.join(missing)}"
        )
    return _WithForward(module) if type(module).forward is nn.Module.forward else module
