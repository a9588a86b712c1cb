from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._optional import available, require

#: Names of the searches; each answers with candidates only, which are ranked again here.
BACKENDS = ("auto", "torch", "faiss", "torch_cluster")

#: Candidates beyond k: rounding may swap neighbours that are nearly as far, so a few more are looked at.
_SPARE = 8

#: MiB of differences that are ranked at a time on a CPU: within its cache this is several times quicker.
_CACHE = 4

#: Answers (indices, squared distances), ascending, both of shape [rows, count], for the given query rows.
Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def nearest_neighbors(x: Tensor, k: int, backend: str, memory_budget: float) -> tuple[Tensor, Tensor]:
    r"""The exact :math:`k` nearest other rows of every row of ``x``.

    A quick search gives :math:`k + 8` candidates, which are ranked by :math:`\|x_i - x_j\|` in double precision, then
    by index. Rows whose last candidate is not clearly farther than the :math:`k`-th neighbour are searched again in
    double precision, then with twice as many candidates, so rounding in the search never decides about an edge.

    Args:
        x (torch.Tensor): Finite features, of shape :obj:`[num_nodes, num_features]`.
        k (int): The number of neighbours, below :obj:`num_nodes`.
        backend (str): One of :data:`BACKENDS`.
        memory_budget (float): About how many MiB a block may take.

    Returns:
        Indices of shape :obj:`[num_nodes, k]` and distances in double precision, ascending, of the same shape.
    """
    exact, scale = _scaled(x)
    num_nodes = x.size(0)
    neighbor = torch.empty(num_nodes, k, dtype=torch.long, device=x.device)
    distance = torch.empty(num_nodes, k, dtype=torch.float64, device=x.device)

    def settle(rows: Tensor, search: Search, count: int, slack: float) -> Tensor:
        """Writes the neighbours of ``rows`` and returns the rows where they are not certain yet."""
        found, rough = search(rows, min(count + 1, num_nodes))  # one more: a row usually finds itself
        _validate(found, rough, num_nodes)
        neighbor[rows], squared, error = _rank(exact, rows, found, rough, k, memory_budget)
        distance[rows] = squared.sqrt() * scale
        unsure = rough[:, -1].double() - (2 * error).clamp(min=slack) <= squared[:, -1]
        again = rows[unsure & (found.size(1) < num_nodes)]
        bar.update(rows.numel() - again.numel())
        return again

    rows = torch.arange(num_nodes, device=x.device)
    with tqdm(total=num_nodes, desc="nearest neighbours", unit="node", delay=3, disable=None, leave=False) as bar:
        for search, block, count, slack in _attempts(exact, k, backend, memory_budget):
            rows = torch.cat([settle(part, search, count, slack) for part in rows.split(block)])
            if rows.numel() == 0:
                break
    return neighbor, distance


def _scaled(x: Tensor) -> tuple[Tensor, float]:
    """Rows in double precision divided by a power of two, which is exact: squares cannot overflow or vanish."""
    scale = 2.0 ** (math.frexp(float(x.abs().max()))[1] - 1)
    return x.double() / scale, scale


def _attempts(exact: Tensor, k: int, backend: str, memory_budget: float) -> Iterator[tuple[Search, int, int, float]]:
    """Search, block of rows, candidates and slack: the backend's search, then one in double precision that grows.

    Double precision tells rows apart that lie close together far from the mean; what it cannot tell apart is a tie,
    and ties need more candidates. The search sees centred rows, since squares of an offset would swallow the rest.
    """
    count = k + _SPARE
    points = (exact - exact.mean(dim=0)).float()
    yield *_make_search(points, backend, memory_budget), count, _rounding_slack(points)
    points = exact - exact.mean(dim=0)
    search, block = _make_search(points, "torch", memory_budget)
    while True:
        yield search, block, count, _rounding_slack(points)
        count, block = 2 * count, max(1, block // 2)


def _rounding_slack(points: Tensor) -> float:
    """How far a squared distance from a search may be off: a few ulps of the largest norm."""
    largest = float(points.double().square().sum(dim=1).max())
    return (8 + points.size(1) ** 0.5) * torch.finfo(points.dtype).eps * 2 * largest


def _rank(
    exact: Tensor, rows: Tensor, found: Tensor, rough: Tensor, k: int, memory_budget: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The first ``k`` candidates by (squared distance, index), the row itself left out, and the search's error.

    The error tells of a search that is less precise than it should be (TF32, autocast).
    """
    found, order = found.sort(dim=1)  # ascending index, so that a stable sort by distance breaks ties by index
    squared = torch.empty(found.shape, dtype=torch.float64, device=exact.device)
    if exact.device.type == "cpu":
        memory_budget = min(memory_budget, _CACHE)
    step = max(1, int(memory_budget * 2**20 / (found.size(1) * exact.size(1) * 8 * 2)))
    for start in range(0, rows.numel(), step):
        part = slice(start, start + step)
        squared[part] = (exact[found[part]] - exact[rows[part]].unsqueeze(1)).square_().sum(dim=2)
    error = (rough.gather(1, order) - squared).abs().amax(dim=1)
    squared[found == rows.unsqueeze(1)] = float("inf")
    squared, order = squared.sort(dim=1, stable=True)
    return found.gather(1, order[:, :k]), squared[:, :k], error


def _validate(found: Tensor, rough: Tensor, num_nodes: int) -> None:
    """Raise if a search answered with missing, repeated or non-finite neighbours: silence would corrupt the graph."""
    ordered = found.sort(dim=1)[0]
    if bool((ordered[:, 0] < 0).any()) or bool((ordered[:, -1] >= num_nodes).any()):
        raise RuntimeError("the neighbour search returned missing neighbours (indices outside the data)")
    if bool((ordered[:, 1:] == ordered[:, :-1]).any()):
        raise RuntimeError("the neighbour search returned the same neighbour twice")
    if not bool(torch.isfinite(rough).all()):
        raise RuntimeError("the neighbour search returned distances that are not finite")


def _make_search(points: Tensor, backend: str, memory_budget: float) -> tuple[Search, int]:
    """The search of a backend, and how many rows it should be asked for at a time."""
    if backend == "auto":
        backend = "faiss" if points.device.type == "cpu" and available("faiss") else "torch"
    if backend == "faiss":
        return _faiss_search(points), 4096
    if backend == "torch_cluster":
        return _torch_cluster_search(points), 4096
    # The block of distances, and as much again for what topk makes of it.
    block = max(16, min(4096, int(memory_budget * 2**20 / (points.size(0) * points.element_size() * 2))))
    return _torch_search(points), block


def _torch_search(points: Tensor) -> Search:
    """Blocked ``‖x‖² − 2⟨x, y⟩ + ‖y‖²`` by matrix product, then the smallest."""
    norm = points.square().sum(dim=1)

    def search(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        squared = torch.addmm(norm, points[rows], points.t(), alpha=-2)
        rough, found = squared.topk(count, dim=1, largest=False)
        return found, (rough + norm[rows].unsqueeze(1)).clamp_(min=0)

    return search


def _faiss_search(points: Tensor) -> Search:
    """The exact flat index of faiss."""
    if points.device.type != "cpu":
        raise ValueError(f"'backend' = 'faiss' needs 'x' on the CPU, got {points.device}; use 'torch' there")
    faiss = require("faiss", extra="knn")
    array = points.contiguous().numpy()
    index = faiss.IndexFlatL2(array.shape[1])
    index.add(array)

    def search(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        rough, found = index.search(array[rows.numpy()], count)
        return torch.from_numpy(found), torch.from_numpy(rough).clamp_(min=0)

    return search


def _torch_cluster_search(points: Tensor) -> Search:
    """torch_cluster called directly: PyG's own ``knn_graph`` asks for another package since 2.8."""
    torch_cluster = require("torch_cluster", extra="ext")

    def search(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        found = torch_cluster.knn(points, points[rows], count)[1]
        if found.numel() != rows.numel() * count:
            raise RuntimeError(f"torch_cluster found fewer than {count} neighbours for some rows; use another backend")
        found = found.view(rows.numel(), count)
        rough = (points[found] - points[rows].unsqueeze(1)).square().sum(dim=2)
        rough, order = rough.sort(dim=1)
        return found.gather(1, order), rough

    return search
