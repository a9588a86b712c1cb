from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

#: How an iterative part ended: at its tolerance or the end of its schedule, at its limit, or no step was accepted.
Status = Literal["converged", "step_limit", "stalled"]


class Trace:
    """What happened at every step, as columns of tensors.

    ``trace["ratio"]`` is a tensor whose first dimension counts the steps; the values stay on their device until
    somebody looks. ``list(trace)`` are the names of the columns, ``len(trace)`` the number of rows.
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[Tensor]] = {}
        self._rows = 0

    def append(self, **values: Any) -> None:
        """Adds one row; every row has the same columns."""
        if self._rows and set(values) != set(self._columns):
            raise ValueError(f"'values' must hold the columns {sorted(self._columns)}, got {sorted(values)}")
        for name, value in values.items():
            self._columns.setdefault(name, []).append(torch.as_tensor(value).detach())
        self._rows += 1

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(map(repr, self._columns))}")
        return torch.stack(self._columns[name])

    @staticmethod
    def from_dict(columns: dict[str, list[Any]]) -> Trace:
        """The trace of columns that :meth:`to_dict` made."""
        trace = Trace()
        for row in zip(*columns.values(), strict=True):
            trace.append(**{name: _exactly(value) for name, value in zip(columns, row, strict=True)})
        return trace

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as plain Python lists."""
        return {name: self[name].tolist() for name in self}

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(rows={len(self)}, columns={list(self)})"


def _exactly(value: Any) -> Tensor:
    """A number or a list of them in full precision."""
    return torch.from_numpy(np.asarray(value))
