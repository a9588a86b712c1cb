from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from tqdm.auto import tqdm

from tg_crepe._optional import available, require
from tg_crepe._threads import for_each_chunk

#: Names of the exact searches; each answers with candidates only, which are ranked again here.
BACKENDS = ("auto", "torch", "faiss", "torch_cluster")

#: Candidates beyond k: rounding may swap neighbours that are nearly as far, so a few more are looked at.
SPARE = 8

#: MiB of differences that are ranked at a time on a CPU: within its cache this is several times quicker.
_CACHE = 4

#: Candidates up to which a row is ranked by compiled code, which inserts one after the other, and rows a thread takes.
_COMPILED, _ROWS = 1024, 512

#: Answers (indices, squared distances), ascending, both of shape [rows, count], for the given query rows.
Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def nearest_neighbors(
    x: Tensor, k: int, backend: str, memory_budget: float, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The exact :math:`k` nearest other rows of every row of ``x``.

    A quick search gives :math:`k + 8` candidates, which are ranked by :math:`\|x_i - x_j\|` in double precision, then
    by index. Rows whose last candidate is not clearly farther than the :math:`k`-th neighbour are searched again in
    double precision, then with twice as many candidates, so rounding in the search never decides about an edge. A row
    with at least :math:`k` equals needs no further search: they are its neighbours, the lowest indices first.

    Args:
        x (torch.Tensor): Finite features, of shape :obj:`[num_nodes, num_features]`.
        k (int): The number of neighbours, below :obj:`num_nodes`.
        backend (str): One of :data:`BACKENDS`.
        memory_budget (float): About how many MiB a block may take.
        rows (torch.Tensor, optional): The rows whose neighbours are wanted, each once, of shape :obj:`[num_rows]`.
            (default: :obj:`None`, all)

    Returns:
        Indices of shape :obj:`[num_rows, k]` and distances in double precision, ascending, of the same shape.
    """
    pending = torch.arange(x.size(0), device=x.device) if rows is None else rows
    with tqdm(total=pending.numel(), desc="nearest neighbours", unit="node", delay=3, disable=None, leave=False) as bar:
        answer = _Answer(x, k, memory_budget)
        for search, block, count, slack in _attempts(answer, backend):
            unsure = []
            for part in pending.split(block):
                unsure.append(answer.settle(part, search, count, slack))
                bar.update(part.numel() - unsure[-1].numel())
            pending = answer.settle_equals(torch.cat(unsure))
            if pending.numel() == 0:
                break
    if rows is None:
        return answer.neighbor, answer.distance
    return answer.neighbor[rows], answer.distance[rows]


class _Answer:
    """The neighbours found so far, and ``base``, the rows that can be somebody's neighbour, ascending."""

    def __init__(self, x: Tensor, k: int, memory_budget: float) -> None:
        self.exact, self.scale = scale_rows(x)
        self.k = k
        self.memory_budget = memory_budget
        self.base = torch.arange(x.size(0), device=x.device)
        self.neighbor = torch.empty(x.size(0), k, dtype=torch.long, device=x.device)
        self.distance = torch.empty(x.size(0), k, dtype=torch.float64, device=x.device)

    def settle(self, rows: Tensor, search: Search, count: int, slack: float) -> Tensor:
        """Writes the neighbours of ``rows`` and returns the rows where they are not certain yet."""
        # One more: a row usually finds itself.
        found, rough = search(torch.searchsorted(self.base, rows), min(count + 1, self.base.numel()))
        validate(found, rough, self.base.numel())
        self.neighbor[rows], squared, error = rank_candidates(
            self.exact, rows, self.base[found], rough, self.k, self.memory_budget
        )
        self.distance[rows] = squared.sqrt() * self.scale
        unsure = rough[:, -1].double() - (2 * error).clamp(min=slack) <= squared[:, -1]
        return rows[unsure & (found.size(1) < self.base.numel())]

    def settle_equals(self, rows: Tensor) -> Tensor:
        """Writes the neighbours of those ``rows`` that have k equals, and returns the others.

        A search answers with all equals of a row, so with thousands of equal rows it would be quadratic. Of such a
        group the k + 1 rows of lowest index are enough: for everyone, one of their own included, k of them come first.
        """
        if self.base.numel() < self.exact.size(0) or not bool((self.distance[rows, -1] == 0).any()):
            return rows
        # Zero is added because -0.0 and 0.0 are the same place.
        _, group, size = torch.unique(self.exact + 0.0, dim=0, return_inverse=True, return_counts=True)
        by_group = group.argsort(stable=True)
        first = size.cumsum(dim=0) - size
        earlier = torch.empty_like(group)  # equals of lower index
        earlier[by_group] = self.base - first.repeat_interleave(size)
        self.base = self.base[earlier <= self.k]
        has_equals = size[group[rows]] > self.k
        equal = rows[has_equals]
        position = torch.arange(self.k, device=rows.device)
        position = position + (position >= earlier[equal].unsqueeze(1))  # past the row itself
        self.neighbor[equal] = by_group[first[group[equal]].unsqueeze(1) + position]
        self.distance[equal] = 0
        return rows[~has_equals]


def scale_rows(x: Tensor) -> tuple[Tensor, float]:
    """Rows in double precision divided by a power of two, which is exact: squares cannot overflow or vanish."""
    scale = power_of_two(float(x.abs().max()))
    return x.double() / scale, scale


def power_of_two(largest: float) -> float:
    """The power of two by which rows with that largest entry are divided."""
    return 2.0 ** (math.frexp(largest)[1] - 1)


def _attempts(answer: _Answer, backend: str) -> Iterator[tuple[Search, int, int, float]]:
    """Search, block of rows, candidates and slack: the backend's search, then one in double precision that grows.

    Double precision tells rows apart that lie close together far from the mean; what it cannot tell apart is a tie,
    and ties need more candidates. The search sees centred rows, since squares of an offset would swallow the rest.
    """
    count, mean = answer.k + SPARE, answer.exact.mean(dim=0)
    points = (answer.exact - mean).float()
    yield *_make_search(points, backend, answer.memory_budget), count, _rounding_slack(points)
    share = 1
    while True:
        points = answer.exact[answer.base] - mean
        search, block = _make_search(points, "torch", answer.memory_budget)
        yield search, max(1, block // share), share * count, _rounding_slack(points)
        share *= 2


def _rounding_slack(points: Tensor) -> float:
    """How far a squared distance from a search may be off."""
    return rounding_slack(float(points.double().square().sum(dim=1).max()), points.size(1), points.dtype)


def rounding_slack(largest: float, num_features: int, dtype: torch.dtype) -> float:
    """How far a squared distance from a search may be off: a few ulps of the largest squared norm."""
    return (8 + num_features**0.5) * torch.finfo(dtype).eps * 2 * largest


def rank_candidates(
    exact: Tensor, rows: Tensor, found: Tensor, rough: Tensor, k: int, memory_budget: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The first ``k`` candidates by (squared distance, index), the row itself left out, and the search's error.

    The error tells of a search that is less precise than it should be (TF32, autocast).
    """
    if exact.device.type == "cpu" and found.size(1) <= _COMPILED and available("numba"):
        return _rank_compiled(exact, rows, found, rough, k)
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


def _rank_compiled(exact: Tensor, rows: Tensor, found: Tensor, rough: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same in one pass over the candidates, on several threads."""
    from tg_crepe.graph.rank_kernel import rank_rows

    neighbor = torch.empty(rows.numel(), k, dtype=torch.long)
    squared = torch.empty(rows.numel(), k, dtype=torch.float64)
    error = torch.empty(rows.numel(), dtype=torch.float64)
    arrays = [part.contiguous().numpy() for part in (exact, rows, found, rough, neighbor, squared, error)]

    def work(chunk: int) -> None:
        rank_rows(chunk * _ROWS, min((chunk + 1) * _ROWS, rows.numel()), *arrays)

    for_each_chunk(work, -(-rows.numel() // _ROWS))
    return neighbor, squared, error


def validate(found: Tensor, rough: Tensor, num_nodes: int) -> None:
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
    """The blocked search among the points themselves."""
    search = torch_queries(points)
    return lambda rows, count: search(points[rows], count)


def torch_queries(points: Tensor) -> Search:
    """Blocked ``‖x‖² − 2⟨x, y⟩ + ‖y‖²`` by matrix product, then the smallest, for query points instead of rows."""
    norm = points.square().sum(dim=1)

    def search(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        squared = torch.addmm(norm, queries, points.t(), alpha=-2)
        rough, found = squared.topk(count, dim=1, largest=False)
        return found, (rough + queries.square().sum(dim=1, keepdim=True)).clamp_(min=0)

    return search


def _faiss_search(points: Tensor) -> Search:
    """The flat index of faiss among the points themselves."""
    search = faiss_queries(points)
    return lambda rows, count: search(points[rows], count)


def faiss_queries(points: Tensor) -> Search:
    """The exact flat index of faiss, for query points instead of rows."""
    if points.device.type != "cpu":
        raise ValueError(f"'backend' = 'faiss' needs 'x' on the CPU, got {points.device}; use 'torch' there")
    faiss = require("faiss", extra="knn")
    index = faiss.IndexFlatL2(points.size(1))
    index.add(points.contiguous().numpy())

    def search(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        rough, found = index.search(queries.contiguous().numpy(), count)
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
