from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tg_crepe._checks import check_count
from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.embed.encoder import ImageEncoder
from tg_crepe.embed.hub import answers
from tg_crepe.embed.weights import FOLDER, find_in_folder, missing_model, read_weights, weights_checksum


class TorchvisionEncoder(ImageEncoder):
    r"""A network for classification of `torchvision <https://pytorch.org/vision/stable/models.html>`_ without its last
    layer, and the transforms of its weights.

    .. code-block:: python

        from tg_crepe.embed import get_encoder

        get_encoder("torchvision:resnet50")
        get_encoder("torchvision:resnet50.IMAGENET1K_V1")  # other weights than the best

    Args:
        name (str): A name of :func:`torchvision.models.list_models`, a dot and the weights if they are not the default.
        weights (path, optional): A file of weights instead, read without running code. (default: :obj:`None`)
        size (int, optional): Pixels a side instead of those of the weights. (default: :obj:`None`)
        **options: Those of :class:`~tg_crepe.embed.Encoder`.
    """

    def __init__(self, name: str, weights: Path | None = None, size: int | None = None, **options: Any) -> None:
        models = require("torchvision.models", extra="vision")
        stem, _, tag = name.partition(".")
        known = models.list_models(module=models)
        if stem not in known:
            close = [other for other in known if other.startswith(stem[:5])][:5] or known[:5]
            raise ValueError(
                f"'model' must be 'torchvision:' and a network for classification, got 'torchvision:{name}'; near it "
                f"are {', '.join(close)}"
            )
        choices = models.get_model_weights(stem)
        if tag and tag not in choices.__members__:
            raise ValueError(f"the weights of '{stem}' must be one of {', '.join(choices.__members__)}, got '{tag}'")
        entry = choices[tag] if tag else choices.DEFAULT
        path = weights or self._find(name, stem, entry.url)
        network = _load(models, stem, path)
        options_of_size = {}
        if size is not None:
            check_count("size", size)
            options_of_size = {"crop_size": size, "resize_size": size}
        transform = entry.transforms(**options_of_size)
        super().__init__(f"torchvision:{stem}.{entry.name}", network, transform, **options)
        self._checksum = weights_checksum(network.state_dict())
        self._preprocessing = " ".join(repr(transform).split())
        self.check_size((3, self.geometry[0], self.geometry[0]))

    @property
    def geometry(self) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
        """Pixels a side, mean and standard deviation of the channels."""
        transform: Any = self.transform
        return transform.crop_size[0], tuple(transform.mean), tuple(transform.std)

    def describe(self) -> dict[str, Any]:
        """The library, the weights and the preprocessing."""
        return {
            "library": "torchvision",
            "weights": self._checksum,
            "preprocessing": self._preprocessing,
            "versions": {"torchvision": require("torchvision", extra="vision").__version__},
        }

    @staticmethod
    def _find(name: str, stem: str, url: str) -> Path:
        """The file of weights, looked for here first and then where torchvision has it."""
        file = url.rsplit("/", 1)[-1]
        cache = Path(torch.hub.get_dir(), "checkpoints")
        found = find_in_folder((file.removesuffix(".pth"), stem))
        if found is None and (cache / file).is_file():
            found = cache / file
        if found is None and answers(url):
            cache.mkdir(parents=True, exist_ok=True)
            try:
                mark = torch.hub.HASH_REGEX.search(file)  # the file's name has the start of its checksum
                torch.hub.download_url_to_file(url, str(cache / file), mark and mark.group(1), progress=False)
            except (OSError, RuntimeError) as error:
                raise OSError(f"'{url}' could not be fetched ({error})") from error
            found = cache / file
        if found is None:
            ways = ["--weights FILE (.safetensors or .pth)", f"a folder with '{file}' that {FOLDER} names"]
            raise missing_model(f"torchvision:{name}", f"'{file}'", f"torch's cache '{cache}'", url, ways)
        return found


def _load(models: Any, stem: str, path: Path) -> nn.Module:
    """The network with the weights of a file, its last layer left out."""
    # Networks with a helper beside the classifier have its weights in their file and do not need it.
    helper = {"aux_logits": True, "init_weights": False} if stem in ("googlenet", "inception_v3") else {}
    network: nn.Module = models.get_model(stem, weights=None, **helper)
    try:
        network.load_state_dict(read_weights(path))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise damaged_file(path, f"its weights do not fit 'torchvision:{stem}' ({reason[:200]})") from error
    layers = [name for name, module in network.named_modules() if isinstance(module, nn.Linear) and "aux" not in name]
    if not layers:  # a convolution is SqueezeNet's last layer; the mean over its maps are its logits
        raise ValueError(f"'model' must be a network with a linear classifier, got 'torchvision:{stem}'")
    parent, _, last = layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())
    return network
