"""Weights of a model: looked for in all places, read without running any code, and told apart by a checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tg_crepe._files import damaged_file
from tg_crepe._optional import require

#: The endings of a file of weights, the safest first.
ENDINGS = (".safetensors", ".pth", ".pt", ".bin")

#: The variable that names a folder of models, for machines without a network.
FOLDER = "TG_CREPE_MODELS"

#: Where training scripts put the weights in what they save, those that are best for inference first.
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name: safetensors, or what ``torch.save`` wrote, tensors and plain values alone."""
    if not path.is_file():
        raise FileNotFoundError(f"the file of weights '{path}' is missing")
    if path.suffix.lower() not in ENDINGS:
        raise damaged_file(path, f"the name of a file of weights must end in one of {', '.join(ENDINGS)}")
    try:
        if path.suffix.lower() == ".safetensors":
            content: Any = require("safetensors.torch", extra="embed").load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (ImportError, PermissionError):
        raise
    except Exception as error:  # a damaged file raises whatever the reader of its first bad byte likes
        raise damaged_file(
            path,
            f"it is not a whole file of weights, or holds more than tensors and plain values ({type(error).__name__})",
        ) from error
    for name in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
            break
    if not isinstance(content, dict) or not any(isinstance(value, Tensor) for value in content.values()):
        raise damaged_file(path, "it must hold tensors by name (a state_dict)")
    # Several processes or a compiled model leave a prefix.
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    for prefix in ("module.", "_orig_mod."):
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def weights_checksum(tensors: Mapping[str, Tensor]) -> str:
    """A checksum of names, shapes and numbers; the same whatever file they came from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()[:16]


def find_in_folder(names: Sequence[str]) -> Path | None:
    """The weights of a model in the folder that TG_CREPE_MODELS names: NAME.safetensors, or a folder NAME with one."""
    root = os.environ.get(FOLDER)
    if not root:
        return None
    for name in names:
        stem = name.replace("/", os.sep)
        for ending in ENDINGS:
            for path in (Path(root, stem + ending), Path(root, stem, "model" + ending)):
                if path.is_file():
                    return path
        if (found := Path(root, stem, "pytorch_model.bin")).is_file():
            return found
    return None


def missing_model(name: str, what: str, cache: str, home: str, ways: Sequence[str]) -> FileNotFoundError:
    """The one line for a model that is not here and cannot be fetched.

    Args:
        name (str): The model, as the user wrote it.
        what (str): What was looked for.
        cache (str): Where its library keeps what it has fetched.
        home (str): Where it would be fetched from.
        ways (list): How to bring it.
    """
    root = os.environ.get(FOLDER)
    own = f"the folder '{root}' of {FOLDER}" if root else f"{FOLDER} (not set)"
    return FileNotFoundError(
        f"the model '{name}' is not here: {what} is neither in {own} nor in {cache}, and {home} does not answer or "
        f"does not have it; bring it by {', or by '.join(ways)}"
    )
