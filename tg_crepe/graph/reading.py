from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tg_crepe._checks import check_choice, check_count, check_tensor, first_indices
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.prepare import PreparedGraph
from tg_crepe.typing import Adjacency, OptTensor

#: How the two directions of a pair are combined into one weight; a direction that is absent counts as 0.
SYMMETRIZE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "max": torch.maximum,
    "mean": lambda forward, backward: (forward + backward) / 2,
    "mutual": torch.minimum,
}


def canonical_graph(
    adjacency: Adjacency,
    edge_weight: OptTensor = None,
    num_nodes: int | None = None,
    symmetrize: str | None = None,
) -> tuple[CanonicalGraph, list[str]]:
    r"""Turns whatever a user calls a graph into a :class:`CanonicalGraph`.

    Self-loops and zero weights are dropped, repeats within a direction are summed, and the two directions of a pair
    are combined by ``symmetrize``: ``"max"``, ``"mean"`` or ``"mutual"`` (the smaller one; a one-way edge vanishes).
    The result does not depend on the order of the given edges, to the last bit.

    Args:
        adjacency: ``edge_index`` of shape :obj:`[2, num_edges]`, a torch or SciPy sparse matrix, a
            :obj:`torch_sparse.SparseTensor` (transposed or not: the result is symmetric), or a :class:`PreparedGraph`,
            which is the result already.
        edge_weight (torch.Tensor, optional): Weights :math:`\geq 0` of shape :obj:`[num_edges]`, for an
            ``edge_index``. (default: :obj:`None`, all ones)
        num_nodes (int, optional): The number of nodes. (default: :obj:`None`, from the graph)
        symmetrize (str, optional): The rule above. (default: :obj:`None`, that of a prepared graph, else :obj:`"max"`)

    Returns:
        The graph, and one phrase for each kind of repair that was made.
    """
    if symmetrize is not None:
        check_choice("symmetrize", symmetrize, SYMMETRIZE)
    if isinstance(adjacency, PreparedGraph):
        adjacency.check_use(edge_weight, num_nodes, symmetrize)
        return adjacency, list(adjacency.repairs)
    symmetrize = symmetrize or "max"
    row, col, weight, num_nodes = _edges(adjacency, edge_weight, num_nodes)
    stride = max(num_nodes, 1)  # an edge as one number: row * stride + col
    notes = []

    loops = row == col
    if bool(loops.any()):
        notes.append(f"{int(loops.sum())} self-loop(s) dropped")
    empty = (weight == 0) & ~loops
    if bool(empty.any()):
        notes.append(f"{int(empty.sum())} edge(s) of weight 0 dropped")
    keep = ~loops & ~empty
    if not bool(keep.all()):  # a copy less of what is mostly in order
        row, col, weight = row[keep], col[keep], weight[keep]
    if weight.numel() and float(weight.max()) * 2 > torch.finfo(weight.dtype).max / weight.numel():
        shift = math.ceil(math.log2(weight.numel())) + 2
        weight = (weight * 2.0**-shift).clamp(min=torch.finfo(weight.dtype).tiny)
        notes.append("weights divided by a power of two: their sum is beyond the range of numbers")

    key = torch.minimum(row, col) * stride + torch.maximum(row, col)
    ascending = row < col
    sides = [_sum_repeats(key[side], weight[side]) for side in (ascending, ~ascending)]
    repeats = key.numel() - sum(side.numel() for side, _ in sides)
    if repeats:
        notes.append(f"{repeats} repeated edge(s) summed")
    pair, forward, backward = _match(*sides[0], *sides[1])
    one_way = int(((forward == 0) | (backward == 0)).sum())
    if one_way:
        action = "dropped" if symmetrize == "mutual" else "taken both ways"
        notes.append(f"{one_way} one-way edge(s) {action} (symmetrize={symmetrize!r})")

    combined = SYMMETRIZE[symmetrize](forward, backward)
    keep = combined > 0
    if not bool(keep.all()):
        pair, combined = pair[keep], combined[keep]
    first = pair // stride
    return CanonicalGraph(torch.stack([first, pair - first * stride]), combined, num_nodes), notes


def _sum_repeats(key: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending keys without repeats, and the sum of the weights of each."""
    if not bool((key[1:] > key[:-1]).all()):
        key, order = torch.sort(key)
        weight = weight[order]
    if bool((key[1:] > key[:-1]).all()):
        return key, weight
    # Sorted by weight within a key, so that the rounding of a sum does not depend on the order of the input.
    order = torch.argsort(weight)
    key, by_key = torch.sort(key[order], stable=True)
    key, position = torch.unique_consecutive(key, return_inverse=True)
    return key, weight.new_zeros(key.numel()).index_add_(0, position, weight[order][by_key])


def _match(key: Tensor, weight: Tensor, other_key: Tensor, other_weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All keys of two ascending lists, and the weight of each in either list, 0 where it is absent."""
    if torch.equal(key, other_key):
        return key, weight, other_weight
    pair = torch.unique(torch.cat([key, other_key]))
    found = weight.new_zeros(2, pair.numel())
    found[0, torch.searchsorted(pair, key)] = weight
    found[1, torch.searchsorted(pair, other_key)] = other_weight
    return pair, found[0], found[1]


def _edges(adjacency: Adjacency, edge_weight: OptTensor, num_nodes: int | None) -> tuple[Tensor, Tensor, Tensor, int]:
    """Rows, columns and weights of any kind of input, checked."""
    if num_nodes is not None:
        check_count("num_nodes", num_nodes, low=0)
    if isinstance(adjacency, Tensor) and adjacency.layout == torch.strided:
        edge_index, weight = _check_edge_index(adjacency), edge_weight
        implied = int(edge_index.max()) + 1 if edge_index.numel() else 0
        if num_nodes is not None and implied > num_nodes:
            bad = (edge_index >= num_nodes).any(dim=0)
            raise ValueError(
                f"'edge_index' must hold node numbers in [0, num_nodes - 1] with num_nodes = {num_nodes}, "
                f"got {implied - 1} in column(s) {first_indices(bad)}"
            )
    else:
        if edge_weight is not None:
            raise ValueError("'edge_weight' must be None when the graph is a sparse matrix (it holds the weights)")
        edge_index, weight, implied = _sparse_edges(adjacency)
        if num_nodes is not None and implied != num_nodes:
            raise ValueError(
                f"the sparse matrix must be of shape [{num_nodes}, {num_nodes}], got [{implied}, {implied}]"
            )
    if weight is None:
        weight = torch.ones(edge_index.size(1), device=edge_index.device)
    return edge_index[0], edge_index[1], _check_weight(weight, edge_index), implied if num_nodes is None else num_nodes


def _check_edge_index(edge_index: Tensor) -> Tensor:
    """A plain int64 ``edge_index`` without negative numbers."""
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"'edge_index' must be of shape [2, num_edges], got {list(edge_index.shape)}")
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"'edge_index' must be of dtype torch.int64, got {edge_index.dtype}")
    edge_index = (edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index).long()  # PyG's EdgeIndex
    bad = (edge_index < 0).any(dim=0)
    if bool(bad.any()):
        raise ValueError(
            f"'edge_index' must hold node numbers >= 0, got {int(edge_index.min())} in column(s) {first_indices(bad)}"
        )
    return edge_index


def _check_weight(weight: Tensor, edge_index: Tensor) -> Tensor:
    """Finite weights >= 0, one per edge, in a floating type."""
    check_tensor("edge_weight", weight)
    num_edges = edge_index.size(1)
    if weight.dim() == 2 and weight.size(1) == 1:
        weight = weight.view(-1)
    if weight.dim() != 1 or weight.numel() != num_edges:
        raise ValueError(f"'edge_weight' must be of shape [num_edges] = [{num_edges}], got {list(weight.shape)}")
    if weight.device != edge_index.device:
        raise ValueError(
            f"'edge_weight' must be on the device of 'edge_index', {edge_index.device}, got {weight.device}"
        )
    if weight.is_complex():
        raise ValueError(f"'edge_weight' must be of a real dtype, got {weight.dtype}")
    if weight.dtype not in (torch.float32, torch.float64):
        weight = weight.to(torch.get_default_dtype())
    bad = ~torch.isfinite(weight) | (weight < 0)
    if bool(bad.any()):
        raise ValueError(
            f"'edge_weight' must be finite and >= 0, got {float(weight[bad][0])} at position(s) {first_indices(bad)}"
        )
    return weight.detach()


def _sparse_edges(adjacency: Adjacency) -> tuple[Tensor, OptTensor, int]:
    """Edge index, weights and size of a sparse matrix of any library."""
    weight: OptTensor
    if isinstance(adjacency, Tensor):
        shape = tuple(adjacency.shape)
        coo = adjacency.to_sparse_coo()
        edge_index, weight = coo._indices(), coo._values()  # uncoalesced too: repeats are summed later
    elif hasattr(adjacency, "tocoo"):  # SciPy
        coo = adjacency.tocoo()
        shape = tuple(coo.shape)
        edge_index = torch.stack([torch.from_numpy(coo.row.astype("int64")), torch.from_numpy(coo.col.astype("int64"))])
        weight = torch.from_numpy(coo.data.copy())
    elif hasattr(adjacency, "coo") and hasattr(adjacency, "sparse_sizes"):  # torch_sparse
        row, col, weight = adjacency.coo()
        edge_index, shape = torch.stack([row, col]), tuple(adjacency.sparse_sizes())
    else:
        raise ValueError(
            "'edge_index' must be a tensor of shape [2, num_edges], a torch or SciPy sparse matrix or a SparseTensor, "
            f"got {type(adjacency).__name__}"
        )
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"the sparse matrix must be square, got shape {list(shape)}")
    return edge_index, weight, shape[0]
