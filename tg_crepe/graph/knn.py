from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_finite_rows, check_positive, check_tensor, read_array
from tg_crepe.graph.approximate import approximate_neighbors
from tg_crepe.graph.metric import METRICS, Placement, find_placement, unit_rows
from tg_crepe.graph.neighbors import BACKENDS as EXACT_BACKENDS
from tg_crepe.graph.neighbors import nearest_neighbors
from tg_crepe.graph.reading import SYMMETRIZE, canonical_graph
from tg_crepe.typing import OptTensor
from tg_crepe.warnings import GraphWarning

#: Names of the kernels that turn distances to neighbours into weights.
KERNELS = ("gaussian", "cosine", "uniform")

#: Names of the searches.
BACKENDS = (*EXACT_BACKENDS, "approximate")

#: Rows up to which "auto" searches exactly: from about here on the approximate search is quicker, with what it takes to
#: measure its recall (benchmarks/end_to_end.py, part "lists").
_MOST_EXACT = 20_000


class NeighborGraph(tuple[Tensor, Tensor]):
    """The pair that :func:`knn_graph` gives, edges and weights, and how good the search was.

    Args:
        edge_index (torch.Tensor): Of shape :obj:`[2, num_edges]`.
        edge_weight (torch.Tensor): Of shape :obj:`[num_edges]`.
        recall (float, optional): The share of the true neighbours that an approximate search found, as measured.
            (default: :obj:`None`, all of them: the search was exact)
    """

    recall: float | None

    def __new__(cls, edge_index: Tensor, edge_weight: Tensor, recall: float | None = None) -> NeighborGraph:
        """A pair with an attribute."""
        pair = super().__new__(cls, (edge_index, edge_weight))
        pair.recall = recall
        return pair

    def __getnewargs__(self) -> tuple[Tensor, Tensor, float | None]:
        """What a copy is made of, in another process too."""
        return (*self, self.recall)


def knn_graph(
    x: Tensor,
    k: int = 20,
    metric: str | Placement = "auto",
    backend: str = "auto",
    kernel: str = "gaussian",
    symmetrize: str = "max",
    memory_budget: float = 256.0,
    recall: float = 0.99,
    batch: OptTensor = None,
) -> NeighborGraph:
    r"""The symmetric weighted graph of the :math:`k` nearest neighbours of every row of ``x``.

    .. math::
        w_{i \to j} = \exp\left(-4 \frac{\|x_i - x_j\|^2}{d_k(x_i)^2}\right), \qquad
        w_{ij} = \max(w_{i \to j}, w_{j \to i}),

    where :math:`d_k(x_i)` is the distance of :math:`x_i` to its :math:`k`-th neighbour. Under the cosine metric the
    rows are first scaled to unit length; a zero row stays zero. The default metric is chosen from ``x`` alone
    (:func:`~tg_crepe.graph.metric.choose_metric`): columns of very different scale are standardised, and one
    :class:`~tg_crepe.GraphWarning` says so; else it is the cosine where this removes hubs, else Euclidean.

    The neighbours are exact, and the candidates of any backend are ranked again by direct distance in double precision,
    then by index, so the edges are the same everywhere. The exception is the approximate search, which :obj:`"auto"`
    takes beyond 20,000 rows on a CPU: one :class:`~tg_crepe.GraphWarning` states its recall, measured on 1,000 random
    rows. Where it would miss more than ``recall`` allows or save no time, the search is exact after all, and the
    warning says that.

    Rows of different graphs of a ``batch`` are never joined. The metric is chosen once, from all rows; a graph of
    :math:`k` rows or fewer joins each of them to all its others, and a graph of one row has no edge.

    .. code-block:: python

        from tg_crepe import knn_graph

        edge_index, edge_weight = knn_graph(torch.randn(100, 8), k=10)

    Args:
        x (torch.Tensor): The features, of shape :obj:`[num_nodes, num_features]`; a NumPy array or a pandas frame of
            floating point numbers will do.
        k (int, optional): The number of neighbours, at most :obj:`num_nodes - 1`. (default: :obj:`20`)
        metric (str or Placement, optional): :obj:`"cosine"`, :obj:`"euclidean"`, :obj:`"auto"` (one of the two, chosen
            from ``x``), or what was chosen before. (default: :obj:`"auto"`)
        backend (str, optional): The search: :obj:`"torch"` (blocked, any device), :obj:`"faiss"`,
            :obj:`"torch_cluster"`, :obj:`"approximate"` (any device) or :obj:`"auto"` (the approximate one beyond
            20,000 rows on the CPU, else faiss where it is installed and ``x`` is on the CPU, else torch).
            (default: :obj:`"auto"`)
        kernel (str, optional): :obj:`"gaussian"` (above), :obj:`"cosine"` (the similarity, if positive) or
            :obj:`"uniform"`. (default: :obj:`"gaussian"`)
        symmetrize (str, optional): :obj:`"max"`, :obj:`"mean"` or :obj:`"mutual"`. (default: :obj:`"max"`)
        memory_budget (float, optional): About how many MiB the search may use at a time. (default: :obj:`256`)
        recall (float, optional): The share of the true neighbours that an approximate search must find, in
            :math:`(0, 1]`; at 1 :obj:`"auto"` is exact at every size. (default: :obj:`0.99`)
        batch (torch.Tensor, optional): The graph that every row belongs to, long of shape :obj:`[num_nodes]`, in any
            order. (default: :obj:`None`, all belong to one)

    Returns:
        The edges in both directions, of shape :obj:`[2, num_edges]`, and their weights of shape :obj:`[num_edges]`, as
        a pair with the attribute ``recall``: that of an approximate search (of the worst graph of a batch), else None.
        With a ``batch`` those of a graph stand together, in the order of the graphs.
    """
    check_knn_options(k, metric, backend, kernel, symmetrize, recall)
    check_positive("memory_budget", memory_budget)
    x = _check_features(read_array("x", x), None if batch is not None else k)
    if batch is not None:
        _check_batch(batch, x)
    placement = metric if isinstance(metric, Placement) else find_placement(x, metric)
    points = unit_rows(x.double(), warn=True) if placement.metric == "cosine" else placement.place(x)
    unit = None
    if kernel == "cosine":
        unit = points if placement.metric == "cosine" else unit_rows(points.double(), warn=False)
    groups = [None] if batch is None else _members(batch)
    edges: list[tuple[Tensor, Tensor]] = []
    notes, recalls = [], []
    for rows in groups:
        part, own = (points, unit) if rows is None else (points[rows], None if unit is None else unit[rows])
        near = min(k, part.size(0) - 1)
        if near == 0:  # a graph of one row
            continue
        if backend == "approximate" or (backend == "auto" and _is_large(part) and recall < 1):
            neighbor, distance, note, measured = approximate_neighbors(part, near, recall, memory_budget)
            notes.append(note)
            recalls += [] if measured is None else [measured]
        else:
            neighbor, distance = nearest_neighbors(part, near, backend, memory_budget)
        weight = neighbor_weight(kernel, distance, partial(_similarity, own, neighbor))
        source = torch.arange(part.size(0), device=x.device).repeat_interleave(near)
        directed = torch.stack([source, neighbor.reshape(-1)])
        edges.append((directed if rows is None else rows[directed], weight.reshape(-1).to(x.dtype)))
    if notes:
        warnings.warn("; ".join(dict.fromkeys(notes)), GraphWarning, stacklevel=2)
    if not edges:
        return NeighborGraph(torch.empty(2, 0, dtype=torch.long, device=x.device), x.new_empty(0))
    directed, weight = (torch.cat(parts, dim=-1) for parts in zip(*edges, strict=True))
    graph, _ = canonical_graph(directed, weight, x.size(0), symmetrize)
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    edge_weight = torch.cat([graph.edge_weight, graph.edge_weight])
    if batch is None:
        return NeighborGraph(edge_index, edge_weight, min(recalls, default=None))
    together = batch[edge_index[0]].argsort(stable=True)
    return NeighborGraph(edge_index[:, together], edge_weight[together], min(recalls, default=None))


def check_knn_options(
    k: int, metric: str | Placement, backend: str, kernel: str, symmetrize: str, recall: float
) -> None:
    """Checks what can be checked before there are features."""
    check_count("k", k)
    if not isinstance(metric, Placement):
        check_choice("metric", metric, METRICS)
    check_choice("backend", backend, BACKENDS)
    check_choice("kernel", kernel, KERNELS)
    check_choice("symmetrize", symmetrize, SYMMETRIZE)
    if isinstance(recall, bool) or not isinstance(recall, numbers.Real) or not 0 < recall <= 1:
        raise ValueError(f"'recall' must be a number in (0, 1], got {recall!r}")


def _is_large(points: Tensor) -> bool:
    """Whether the approximate search is worth its misses; on other devices than the CPU that is not measured."""
    return points.device.type == "cpu" and points.size(0) > _MOST_EXACT


def _check_features(x: Tensor, k: int | None) -> Tensor:
    """Finite float features, with more than ``k`` rows where that is asked."""
    check_tensor("x", x)
    if x.layout != torch.strided or x.dim() != 2 or x.numel() == 0:
        raise ValueError(
            f"'x' must be a dense tensor of shape [num_nodes, num_features], not empty, got {list(x.shape)}"
        )
    if x.is_complex():
        raise ValueError(f"'x' must be of a real dtype, got {x.dtype}")
    if k is not None:
        check_count("k", k, high=x.size(0) - 1, high_name="num_nodes - 1")
    x = x.detach().contiguous()  # sums over a row must not depend on its layout in memory
    if x.dtype not in (torch.float32, torch.float64):
        x = x.to(torch.get_default_dtype())
    check_finite_rows("x", x)
    return x


def _check_batch(batch: Tensor, x: Tensor) -> None:
    """The number of a graph for every row."""
    check_tensor("batch", batch)
    if batch.dtype not in (torch.int64, torch.int32) or list(batch.shape) != [x.size(0)] or batch.device != x.device:
        raise ValueError(
            f"'batch' must hold integers of shape [num_nodes] = [{x.size(0)}] on the device of 'x', {x.device}, got "
            f"{batch.dtype} of shape {list(batch.shape)} on {batch.device}"
        )


def _members(batch: Tensor) -> list[Tensor]:
    """The rows of every graph, ascending."""
    count = torch.unique(batch, return_counts=True)[1]
    return list(batch.argsort(stable=True).split(count.tolist()))


def _similarity(unit: Tensor | None, neighbor: Tensor) -> Tensor:
    """Cosine similarity of every row with its neighbours, a column of neighbours at a time to save memory."""
    if unit is None:
        raise RuntimeError("the cosine kernel needs unit rows")
    return torch.stack([(unit * unit[column]).sum(dim=1) for column in neighbor.t()], dim=1)


def neighbor_weight(kernel: str, distance: Tensor, similarity: Callable[[], Tensor]) -> Tensor:
    r"""The weights of the edges from every node to its nearest neighbours.

    .. math::
        w_{ij} = \exp\left(-4 \frac{\|x_i - x_j\|^2}{d_k(x_i)^2}\right) \text{ (gaussian)}, \qquad
        w_{ij} = \max(\cos(x_i, x_j), 0) \text{ (cosine)}, \qquad w_{ij} = 1 \text{ (uniform)},

    where :math:`d_k(x_i)` is the distance to the :math:`k`-th neighbour. Where it is 0 (duplicate points) the
    Gaussian weight is 1 at distance 0.

    Args:
        kernel (str): :obj:`"gaussian"`, :obj:`"cosine"` or :obj:`"uniform"`.
        distance (torch.Tensor): Ascending distances of shape :obj:`[num_nodes, k]`.
        similarity (callable): Makes the cosine similarities of shape :obj:`[num_nodes, k]` when they are needed.
    """
    if kernel == "uniform":
        return torch.ones_like(distance)
    if kernel == "cosine":
        return similarity().clamp(min=0)
    width = distance[:, -1:]
    relative = torch.where(width > 0, distance / width.clamp(min=torch.finfo(distance.dtype).tiny), 0.0)
    return torch.exp(-4 * relative.square())
