"""Checks of user input: every message names the argument, what was expected and what was given."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor


def check_choice(name: str, value: Any, valid: Iterable[str]) -> None:
    """Raise if ``value`` is not one of the ``valid`` names, and list them."""
    valid = list(valid)
    if value not in valid:
        raise ValueError(f"'{name}' must be one of {', '.join(map(repr, valid))}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise unless ``value`` is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"'{name}' must be a finite number > 0, got {value!r}")


def check_count(name: str, value: Any, low: int = 1, high: int | None = None, high_name: str = "") -> None:
    """Raise unless ``value`` is an integer in ``[low, high]``."""
    fits = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= low
    if not fits or (high is not None and value > high):
        expected = f">= {low}" if high is None else f"in [{low}, {high_name or high}]"
        limit = f" ({high_name} = {high})" if high_name else ""
        raise ValueError(f"'{name}' must be an integer {expected}, got {value!r}{limit}")


def check_tensor(name: str, value: Any) -> Tensor:
    """Raise unless ``value`` is a tensor; returns it."""
    if not isinstance(value, Tensor):
        raise ValueError(f"'{name}' must be a torch.Tensor, got {type(value).__name__}")
    return value


def check_homogeneous(data: Any) -> None:
    """Raise where nodes or edges are of several types."""
    from torch_geometric.data import HeteroData  # PyG takes seconds to import

    if isinstance(data, HeteroData):
        raise ValueError(
            "'data' must be a Data or a Batch, with one type of nodes and edges, got HeteroData with the node types "
            f"{', '.join(map(repr, data.node_types)) or 'none'}; data.to_homogeneous() makes one graph of it"
        )


def read_array(name: str, value: Any) -> Any:
    """A NumPy array or a frame or series of pandas as a tensor of its own memory; whatever else it is, as it is."""
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if not isinstance(value, np.ndarray):
        return value
    try:
        return torch.tensor(np.ascontiguousarray(value))
    except (TypeError, ValueError) as error:
        raise ValueError(f"'{name}' must hold numbers, got an array of {value.dtype}") from error


def first_indices(bad: Tensor, limit: int = 5) -> str:
    """The first few positions where ``bad`` holds, for an error message."""
    where = bad.nonzero().view(-1)
    shown = ", ".join(str(int(i)) for i in where[:limit])
    return f"{shown}, … ({where.numel()} in all)" if where.numel() > limit else shown


def check_finite_rows(name: str, value: Tensor) -> None:
    """Raise if a row of ``value`` holds NaN or infinity, and say which rows."""
    bad = ~torch.isfinite(value).view(value.size(0), -1).all(dim=1)
    if bool(bad.any()):
        raise ValueError(f"'{name}' must be finite, got NaN or infinity in row(s) {first_indices(bad)}")


def check_mask(mask: Tensor, num_nodes: int, name: str = "mask") -> Tensor:
    """A bool mask of shape :obj:`[num_nodes]` from a bool mask or from node indices, checked."""
    check_tensor(name, mask)
    if mask.dtype == torch.bool:
        if mask.dim() == 2 and mask.size(1) > 1:
            raise ValueError(
                f"'{name}' must be of shape [num_nodes], got {list(mask.shape)}: it holds several splits, pick one "
                "(for example data.train_mask = data.train_mask[:, 0])"
            )
        if mask.numel() != num_nodes or mask.dim() not in (1, 2):
            raise ValueError(f"'{name}' must be of shape [num_nodes] = [{num_nodes}], got {list(mask.shape)}")
        return mask.view(-1)
    if mask.dtype not in (torch.int64, torch.int32) or mask.dim() != 1:
        raise ValueError(
            f"'{name}' must be bool of shape [num_nodes] or a 1-D tensor of node indices, got {mask.dtype} "
            f"of shape {list(mask.shape)}"
        )
    bad = (mask < 0) | (mask >= num_nodes)
    if bool(bad.any()):
        raise ValueError(f"'{name}' must hold node indices in [0, {num_nodes - 1}], got {int(mask[bad][0])}")
    full = torch.zeros(num_nodes, dtype=torch.bool, device=mask.device)
    full[mask.long()] = True
    return full
