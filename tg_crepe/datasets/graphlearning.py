from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe._checks import check_choice, check_count
from tg_crepe._files import damaged_file, read_arrays
from tg_crepe.datasets._arrays import target_tensor
from tg_crepe.graph.knn import neighbor_weight
from tg_crepe.graph.reading import SYMMETRIZE, canonical_graph

#: The kernels that need distances alone.
_KERNELS = ("gaussian", "uniform")

#: By what share of the largest distance of a row one may be below the one before: approximate searches round.
_ROUNDING = 1e-3


def load_graphlearning(
    root: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    k: int = 10,
    kernel: str = "gaussian",
    symmetrize: str = "max",
) -> Data:
    r"""A nearest-neighbour graph that the `GraphLearning <https://github.com/jwcalder/GraphLearning>`_ package has
    published or saved, such as :obj:`mnist_vae.npz`, :obj:`fashionmnist_vae.npz`, :obj:`cifar_aet.npz` or
    :obj:`cifar10_simclr.npz` of its folder :obj:`kNNData`: the graphs of many published comparisons.

    The file holds neighbours :obj:`J` and distances :obj:`D` of shape :obj:`[num_nodes, num_neighbors]`, sorted by
    distance; a node is its own nearest neighbour there, and is left out wherever it stands. The weights are those of
    :func:`~tg_crepe.knn_graph`,

    .. math::
        w_{i \to j} = \exp\left(-4 \frac{\|x_i - x_j\|^2}{d_k(x_i)^2}\right), \qquad
        w_{ij} = \max(w_{i \to j}, w_{j \to i}),

    and the larger of both directions; GraphLearning takes the mean (``symmetrize="mean"``). Nothing in the file is
    executed: a pickled array is an error.

    .. code-block:: python

        data = load_graphlearning("mnist_vae.npz", "mnist_labels.npz", symmetrize="mean")
        data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        data.train_mask[chosen] = True
        data = CrepePropagation()(data)

    Args:
        root (str or path): The file of the neighbours.
        labels (str or path, optional): The file with the array :obj:`labels`, such as :obj:`mnist_labels.npz`.
            (default: :obj:`None`, a graph without :obj:`y`)
        k (int, optional): How many neighbours of every node to take, without itself. (default: :obj:`10`, with which
            most comparisons were made)
        kernel (str, optional): :obj:`"gaussian"` or :obj:`"uniform"`. (default: :obj:`"gaussian"`)
        symmetrize (str, optional): :obj:`"max"`, :obj:`"mean"` or :obj:`"mutual"`. (default: :obj:`"max"`)

    Returns:
        Data: :obj:`edge_index` with the edges in both directions, :obj:`edge_weight` in double precision,
        :obj:`num_nodes`, and :obj:`y` where there are labels.
    """
    check_count("k", k)
    check_choice("kernel", kernel, _KERNELS)
    check_choice("symmetrize", symmetrize, SYMMETRIZE)
    path = _check_file("root", root)
    known = None if labels is None else _check_file("labels", labels)
    neighbor, distance = _read_neighbors(path, k)
    num_nodes = neighbor.size(0)
    y = None if known is None else _read_labels(known, num_nodes, path)
    weight = neighbor_weight(kernel, distance, lambda: distance)
    source = torch.arange(num_nodes).repeat_interleave(k)
    directed = torch.stack([source, neighbor.reshape(-1)])
    graph, _ = canonical_graph(directed, weight.reshape(-1), num_nodes, symmetrize)
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    data = Data(edge_index=edge_index, edge_weight=graph.edge_weight.repeat(2), num_nodes=num_nodes)
    if y is not None:
        data.y = y
    return data


def _check_file(name: str, path: str | os.PathLike[str]) -> Path:
    """The file that a user named."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"'{name}' must be the path of a .npz file, got {path!r}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"'{name}' must be a .npz file, '{path}' is missing")
    return Path(path)


def _read_neighbors(path: Path, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest others of every node and their distances, both of shape :obj:`[num_nodes, k]`."""
    arrays = read_arrays(path, ("J", "D"))
    neighbor, distance = arrays["J"], arrays["D"]
    if neighbor.ndim != 2 or neighbor.shape != distance.shape or neighbor.size == 0:
        raise damaged_file(
            path,
            f"'J' and 'D' must be of the same shape [num_nodes, num_neighbors], got {neighbor.shape} and "
            f"{distance.shape}",
        )
    if neighbor.dtype.kind not in "iuf" or distance.dtype.kind not in "iuf":
        raise damaged_file(path, f"'J' and 'D' must hold numbers, got {neighbor.dtype} and {distance.dtype}")
    if neighbor.dtype.kind == "f" and not bool((neighbor == np.rint(neighbor)).all()):  # NaN is not equal to itself
        raise damaged_file(path, "'J' must hold the numbers of nodes, got NaN or fractions")
    num_nodes = len(neighbor)
    if neighbor.min() < 0 or neighbor.max() >= num_nodes:
        raise damaged_file(path, f"'J' must be in [0, {num_nodes - 1}], got {neighbor.min()} to {neighbor.max()}")
    if not bool(np.isfinite(distance).all()) or distance.min() < 0:
        raise damaged_file(path, "'D' must hold distances >= 0, got a negative one, NaN or infinity")
    distance = distance.astype(np.float64)
    if bool((np.diff(distance, axis=1) < -_ROUNDING * distance.max(axis=1, keepdims=True)).any()):
        raise damaged_file(path, "'D' must ascend along every row")
    neighbor = neighbor.astype(np.int64)
    other = neighbor != np.arange(num_nodes)[:, None]
    fewest = int(other.sum(axis=1).min())
    if fewest < k:
        raise ValueError(f"'k' must be at most {fewest}, the number of neighbours in '{path}', got {k}")
    # The first k others of every row in their order: itself may stand behind a duplicate, or not at all.
    first = other & (other.cumsum(axis=1) <= k)
    return (
        torch.from_numpy(neighbor[first].reshape(num_nodes, k)),
        torch.from_numpy(distance[first].reshape(num_nodes, k)),
    )


def _read_labels(path: Path, num_nodes: int, graph: Path) -> Tensor:
    """The class of every node, long of shape :obj:`[num_nodes]`."""
    array = read_arrays(path, ("labels",))["labels"]
    if array.shape[:1] != (num_nodes,):
        raise damaged_file(
            path, f"'labels' must hold one class for each of the {num_nodes} nodes of '{graph}', got {array.shape}"
        )
    y, multi_label = target_tensor(array, num_nodes, str(path))
    if multi_label:
        raise damaged_file(path, f"'labels' must hold one class per node, got {array.shape}")
    return y
