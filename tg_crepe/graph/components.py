from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe.graph.communicator import Communicator


def connected_components(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Numbers the connected components of an undirected graph.

    On the CPU by compiled code where there is some, edge by edge. Elsewhere every node takes the smallest number among
    its neighbours' roots, then the path to the root is halved until it is flat: about :math:`\\log n` rounds, on the
    graph's device, which SciPy's search would not.

    Args:
        edge_index (torch.Tensor): Edges, in one direction or both, of shape :obj:`[2, num_edges]`.
        num_nodes (int): The number of nodes.

    Returns:
        torch.Tensor: A number in :obj:`[0, num_components)` for every node, in order of the smallest member.
    """
    if edge_index.device.type == "cpu" and available("numba"):
        from tg_crepe.graph.pattern_kernel import number_components

        label = torch.empty(num_nodes, dtype=torch.long)
        first, second = (end.contiguous().numpy() for end in edge_index)
        number_components(first, second, label.numpy())
        return label
    root = torch.arange(num_nodes, device=edge_index.device)
    one, other = edge_index
    while True:
        low = torch.minimum(root[one], root[other])
        hooked = root.clone()
        for end in (one, other):
            # Hook the *root* of each end, so that whole trees move at once.
            hooked.scatter_reduce_(0, root[end], low, reduce="amin")
            hooked.scatter_reduce_(0, end, low, reduce="amin")
        while True:
            shorter = hooked[hooked]
            if torch.equal(shorter, hooked):
                break
            hooked = shorter
        if torch.equal(hooked, root):
            return torch.unique(root, return_inverse=True)[1]
        root = hooked


def shared_components(part: Tensor, edge_index: Tensor, communicator: Communicator) -> Tensor:
    """Numbers the connected components of a graph of which this process holds a part.

    The components within a part take the smallest number of a node in them, and then the smallest that any part on the
    other side of an edge knows, until nothing changes: as many rounds as a component passes from part to part.

    Args:
        part (torch.Tensor): The components by edges between own nodes alone, of shape :obj:`[num_nodes]`.
        edge_index (torch.Tensor): The edges of the part, of shape :obj:`[2, num_edges]`; halo nodes come second.
        communicator (Communicator): What connects the parts; it holds the number that all of them know a node by.

    Returns:
        torch.Tensor: As :func:`connected_components`, for own nodes, with the same numbers in all parts.
    """
    num_nodes = part.numel()
    here, there = edge_index[:, edge_index[1] >= num_nodes]
    assert communicator.number is not None  # of several processes
    own = communicator.number[:num_nodes]
    lowest = own.new_full((int(part.max()) + 1 if num_nodes else 0,), torch.iinfo(own.dtype).max)
    lowest.scatter_reduce_(0, part, own, reduce="amin")
    while True:
        known = communicator.halo(lowest[part])
        lower = lowest.scatter_reduce(0, part[here], known[there], reduce="amin")
        changed = torch.tensor(not torch.equal(lower, lowest), dtype=torch.long, device=lowest.device)
        if not bool(communicator.max(changed)):
            return torch.searchsorted(communicator.union(lowest), lowest)[part]
        lowest = lower
