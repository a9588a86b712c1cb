"""The modules that a tensor walks through from ``Data(x, y, train_mask)`` to ``data.pseudo_y``, by the profiler.

    python benchmarks/walk.py

One line per module in the order of the first call, indented below the module that called it. Modules that any other may
call (checks, sums, sparse products) are marked with a dot.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

from tg_crepe import CrepePropagation, FeatureKNNGraph

#: What stands at hand everywhere and holds no step of the walk.
AT_HAND = ("_checks", "_optional", "graph.communicator", "graph.reductions", "graph.sparse", "solvers.trace")


def walk(transform: Any, data: Data) -> list[tuple[int, str]]:
    """The depth and name of every module of the package in the order of the first call."""
    found: dict[str, int] = {}
    stack: list[str] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("tg_crepe."):
            return
        name = name.removeprefix("tg_crepe.")
        if event == "call":
            found.setdefault(name, len(dict.fromkeys(stack)))
            stack.append(name)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(record)
    try:
        transform(data)
    finally:
        sys.setprofile(None)
    return [(depth, name) for name, depth in found.items()]


def main() -> None:
    """Prints the walk."""
    warnings.simplefilter("ignore")
    y = torch.arange(600) % 3
    noise = torch.randn(600, 16, generator=torch.Generator().manual_seed(0))
    x = noise + 2 * torch.nn.functional.one_hot(y, 16)
    data = Data(x=x, y=y, train_mask=torch.arange(600) < 15)
    transform = T.Compose([FeatureKNNGraph(k=20), CrepePropagation()])
    transform(data.clone())  # what is compiled or imported once is not part of it
    steps = walk(transform, data)
    for depth, name in steps:
        print(f"{'. ' if name in AT_HAND else '  '}{'  ' * depth}{name}")
    own = sum(name not in AT_HAND for _, name in steps)
    print(f"{len(steps)} modules, {own} of them steps of the walk")


if __name__ == "__main__":
    main()
