from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tg_crepe._files import atomic_file, damaged_file, read_arrays
from tg_crepe.graph import PreparedGraph, knn_graph, prepare
from tg_crepe.graph.metric import Placement, find_placement
from tg_crepe.runs.plane import principal_plane

#: Coordinates of the map along an axis.
GRID = 1000


@dataclass(frozen=True)
class Prepared:
    r"""What no label changes, made once and kept: the graph, the metric that it was made with, and the map.

    Args:
        placement (Placement): Where the features stand.
        edge_index (torch.Tensor): The edges, of shape :obj:`[2, num_edges]`.
        edge_weight (torch.Tensor): Their weights, of shape :obj:`[num_edges]`.
        position (numpy.ndarray): Places on the map, int16 from 0 to 999, of shape :obj:`[num_nodes, 2]`.
    """

    placement: Placement
    edge_index: Tensor
    edge_weight: Tensor
    position: np.ndarray

    @cached_property
    def graph(self) -> PreparedGraph:
        """The graph as models take it, with all that labels do not change."""
        return prepare(self.edge_index, self.edge_weight, len(self.position))

    @classmethod
    def make(cls, x: np.ndarray, k: int, metric: str) -> Prepared:
        """The graph of the nearest neighbours, as ``tg-crepe propagate`` makes it."""
        rows = torch.from_numpy(x)
        placement = find_placement(rows, metric)
        edge_index, edge_weight = knn_graph(rows, min(k, len(x) - 1), placement)
        return cls(placement, edge_index, edge_weight, _on_grid(principal_plane(x)))

    def save(self, path: Path) -> None:
        """Writes it as one file."""
        factor = self.placement.factor
        arrays = {
            "edge_index": self.edge_index.numpy().astype(np.int32),
            "edge_weight": self.edge_weight.numpy(),
            "position": self.position,
            "metric": np.array(self.placement.metric),
            **({} if factor is None else {"factor": factor.numpy()}),
        }
        with atomic_file(path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path, num_nodes: int) -> Prepared:
        """Reads what :meth:`save` wrote."""
        arrays = read_arrays(path, ("edge_index", "edge_weight", "position", "metric"))
        edge_index = torch.from_numpy(arrays["edge_index"].astype(np.int64))
        fits = arrays["position"].shape == (num_nodes, 2) and edge_index.shape == (2, len(arrays["edge_weight"]))
        if not fits or (edge_index.numel() and int(edge_index.max()) >= num_nodes):
            raise damaged_file(path, f"it is not the graph of {num_nodes} items")
        factor = torch.from_numpy(arrays["factor"]) if "factor" in arrays else None
        placement = Placement(str(arrays["metric"]), factor)
        return cls(placement, edge_index, torch.from_numpy(arrays["edge_weight"]), arrays["position"])


def _on_grid(plane: np.ndarray) -> np.ndarray:
    """Whole numbers; the outermost 0.2 % are moved to the border."""
    low, high = np.quantile(plane, [0.002, 0.998], axis=0)
    scaled = (plane - low) / np.where(high > low, high - low, 1)
    scaled = np.where(high > low, np.clip(scaled, 0, 1), 0.5)
    return np.round(scaled * (GRID - 1)).astype(np.int16)
