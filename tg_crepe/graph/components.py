from __future__ import annotations

import torch
from torch import Tensor


def connected_components(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Numbers the connected components of an undirected graph.

    Every node takes the smallest number among its neighbours' roots, then the path to the root is halved until it is
    flat. It needs about :math:`\\log n` rounds and stays on the graph's device, which SciPy's search would not.

    Args:
        edge_index (torch.Tensor): Edges, in one direction or both, of shape :obj:`[2, num_edges]`.
        num_nodes (int): The number of nodes.

    Returns:
        torch.Tensor: A number in :obj:`[0, num_components)` for every node, in order of the smallest member.
    """
    root = torch.arange(num_nodes, device=edge_index.device)
    first, second = edge_index
    while True:
        low = torch.minimum(root[first], root[second])
        hooked = root.clone()
        for end in (first, second):
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
