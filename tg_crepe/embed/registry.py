from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tg_crepe._files import damaged_file
from tg_crepe.embed.encoder import Encoder

#: The libraries by the name before the colon: the file in this folder, and the class in it.
ENCODERS = {
    "timm": ("timm", "TimmEncoder"),
    "torchvision": ("torchvision", "TorchvisionEncoder"),
    "sentence-transformers": ("sentence_transformers", "SentenceEncoder"),
}

#: The model of each kind where none is named; docs/embed.md has what they were compared with.
DEFAULT_MODELS = {"images": "timm:tf_efficientnet_lite0", "texts": "sentence-transformers:all-MiniLM-L6-v2"}


def is_model_name(name: str) -> bool:
    """Whether a name is that of a pretrained model: a library and a colon, or a folder with a model."""
    return name.partition(":")[0] in ENCODERS or _library_of(Path(name)) is not None


def _library_of(folder: Path) -> str | None:
    """The library that a folder's model is of, None where it holds none."""
    if (folder / "modules.json").is_file():
        return "sentence-transformers"
    return "timm" if (folder / "config.json").is_file() else None


def get_encoder(
    model: str | os.PathLike[str] | nn.Module | Callable[..., Any] | Encoder,
    weights: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Encoder:
    r"""The pretrained model of a name, of a folder, or of your own.

    .. code-block:: python

        from tg_crepe.embed import get_encoder

        get_encoder("timm:tf_efficientnet_lite0")
        get_encoder("torchvision:resnet50", device="cuda")
        get_encoder("sentence-transformers:all-MiniLM-L6-v2")
        get_encoder("models/my-model")  # a folder of timm or sentence-transformers
        get_encoder(network, size=128)  # your own torch.nn.Module for images
        get_encoder(function, kind="texts")  # any function of a list

    A model that is neither here nor can be fetched is a :class:`FileNotFoundError` within seconds.

    Args:
        model (str, path, torch.nn.Module or callable): ``timm:NAME``, ``torchvision:NAME``,
            ``sentence-transformers:NAME``, a folder, a network, a function, or an encoder, which is returned.
        weights (path, optional): A file of weights for a network of timm or torchvision, ``.safetensors`` or ``.pth``.
            (default: :obj:`None`, those of the name)
        **options: :obj:`batch_size`, :obj:`device`, :obj:`precision` (:class:`Encoder`), and those of the library's
            own class, such as :obj:`size`.
    """
    if isinstance(model, Encoder):
        if given := [name for name, value in {"weights": weights, **options}.items() if value is not None]:
            raise ValueError(f"'{given[0]}' must be given when the encoder is made, and not with it")
        return model
    if not isinstance(model, str | os.PathLike):
        return _own(model, weights, options)
    name = os.fspath(model)
    library, _, rest = name.partition(":")
    if library in ENCODERS and rest:
        place = {} if weights is None else {"weights": Path(weights)}
        return _make(library, rest, name, {**place, **options})
    folder = Path(name)
    if not folder.is_dir():
        known = ", ".join(f"'{known}:NAME'" for known in ENCODERS)
        raise ValueError(f"'model' must be {known} or a folder with a model, got '{name}'")
    found = _library_of(folder)
    if found is None:
        raise damaged_file(folder, "a folder with a model must hold modules.json (texts) or config.json (timm)")
    place = {} if weights is None else {"weights": Path(weights)}
    return _make(found, folder.resolve().name, name, {"folder": folder, **place, **options})


def _make(library: str, rest: str, name: str, options: dict[str, Any]) -> Encoder:
    """An encoder of a library, its options checked."""
    options = {key: value for key, value in options.items() if value is not None}
    if library == "sentence-transformers" and (wrong := {"weights", "size"} & options.keys()):
        raise ValueError(f"'{sorted(wrong)[0]}' must not be given with a model for texts ('{name}')")
    file, kind = ENCODERS[library]
    with torch.random.fork_rng(devices=()):  # a network is made of random numbers before it has its weights
        encoder: Encoder = getattr(import_module(f"tg_crepe.embed.{file}"), kind)(rest, **options)
    return encoder


def _own(model: Any, weights: Any, options: dict[str, Any]) -> Encoder:
    """A user's network or function."""
    from tg_crepe.embed.function import FunctionEncoder, NetworkEncoder

    if weights is not None:
        raise ValueError("'weights' must be None for a network or a function of your own: load them first")
    options = {key: value for key, value in options.items() if value is not None}
    if isinstance(model, nn.Module) and "kind" not in options:
        return NetworkEncoder(model, **options)
    if not callable(model):
        raise ValueError(f"'model' must be a name, a folder, a network or a function, got {type(model).__name__}")
    if "kind" not in options:
        raise ValueError("'kind' must say what the function reads, 'images' or 'texts', got nothing")
    return FunctionEncoder(model, **options)
