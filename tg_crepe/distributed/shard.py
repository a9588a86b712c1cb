from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.typing import Adjacency, OptTensor


@dataclass(frozen=True, eq=False)
class Shard:
    r"""The part of a graph that one process holds: its own nodes, all their edges, and the halo.

    The graph is the canonical one (:func:`tg_crepe.graph.canonical_graph`: symmetric, no loops, no repeats, weights
    above zero), stored as directed CSR rows. A process holds the rows of the nodes it owns, so both directions of an
    edge between two processes are there, one on each. The *halo* are the other ends of such edges: nodes of other
    processes whose values are needed here. Locally the nodes are numbered

    .. math::
        0, \dots, n_{\text{own}} - 1 \;\text{(own)}, \qquad
        n_{\text{own}}, \dots, n_{\text{own}} + n_{\text{halo}} - 1 \;\text{(halo)}.

    One exchange fills the halo: rank :math:`r` sends the rows ``send[s]`` to rank :math:`s` and receives
    ``recv_counts[s]`` rows from it; received in the order of ranks they stand in the order of ``halo_id``:

    .. code-block:: python

        out = torch.cat([u[rows] for rows in shard.send])
        halo = u.new_empty(shard.num_halo, u.size(1))
        dist.all_to_all_single(halo, out, shard.recv_counts, shard.send_counts)

    Within a row the edges ascend by the *global* number of the other node, as in
    :attr:`~tg_crepe.graph.CanonicalGraph.csr_pattern`: a sum over a row rounds as on one process.

    Args:
        rank (int): The process.
        world_size (int): The number of processes.
        num_nodes (int): The number of nodes of the whole graph.
        node_id (torch.Tensor): The global numbers of the own nodes, ascending, of shape :obj:`[num_own]`.
        halo_id (torch.Tensor): Those of the halo, grouped by owner in the order of ranks, ascending within an owner,
            of shape :obj:`[num_halo]`.
        rowptr (torch.Tensor): Row pointers of shape :obj:`[num_own + 1]`.
        col (torch.Tensor): The other node of each edge in local numbers, of shape :obj:`[nnz]`.
        weight (torch.Tensor): The weights of the edges, of shape :obj:`[nnz]`.
        send (list): For every rank the own rows that it needs, in the order of its halo.
        recv_counts (list): For every rank how many rows of the halo it owns.
        y (torch.Tensor, optional): The labels of the own nodes, -1 for none, of shape :obj:`[num_own]`, or findings
            of shape :obj:`[num_own, num_classes]`.
        mask (torch.Tensor, optional): Which own nodes are labelled, bool of shape :obj:`[num_own]`.
        x (torch.Tensor, optional): The features of the own nodes, of shape :obj:`[num_own, num_features]`; memory
            that is mapped from the file, where the shard was opened from a folder.
        num_classes (int, optional): The number of classes of the whole problem.
        multi_label (bool): Whether the columns of ``y`` are findings on their own.
        class_names (tuple): The names of the classes; empty where they are numbers.
        names (numpy.ndarray, optional): The names of the own nodes; :obj:`None` where these are their numbers.
    """

    rank: int
    world_size: int
    num_nodes: int
    node_id: Tensor
    halo_id: Tensor
    rowptr: Tensor
    col: Tensor
    weight: Tensor
    send: list[Tensor]
    recv_counts: list[int]
    y: OptTensor = None
    mask: OptTensor = None
    x: OptTensor = None
    num_classes: int | None = None
    multi_label: bool = False
    class_names: tuple[str, ...] = ()
    names: np.ndarray | None = field(default=None, repr=False)

    @property
    def num_own(self) -> int:
        """The number of own nodes."""
        return self.node_id.numel()

    @property
    def num_halo(self) -> int:
        """The number of nodes in the halo."""
        return self.halo_id.numel()

    @property
    def send_counts(self) -> list[int]:
        """For every rank how many rows are sent to it."""
        return [rows.numel() for rows in self.send]

    @staticmethod
    def from_graph(
        edge_index: Adjacency,
        edge_weight: OptTensor,
        owner: Tensor,
        rank: int,
        world_size: int,
        y: OptTensor = None,
        mask: OptTensor = None,
        x: OptTensor = None,
        num_classes: int | None = None,
    ) -> Shard:
        """The shard of one rank, from the whole graph in memory.

        Args:
            edge_index: The graph, in any form that :func:`~tg_crepe.graph.canonical_graph` takes.
            edge_weight (torch.Tensor, optional): Its weights, of shape :obj:`[num_edges]`.
            owner (torch.Tensor): The rank of every node, of shape :obj:`[num_nodes]`.
            rank (int): The rank whose shard is wanted.
            world_size (int): The number of ranks.
            y (torch.Tensor, optional): Labels of all nodes, of shape :obj:`[num_nodes]` or
                :obj:`[num_nodes, num_classes]`.
            mask (torch.Tensor, optional): Which nodes are labelled, bool of shape :obj:`[num_nodes]`.
            x (torch.Tensor, optional): Features of all nodes, of shape :obj:`[num_nodes, num_features]`.
            num_classes (int, optional): The number of classes. (default: the largest label + 1)
        """
        graph, _ = canonical_graph(edge_index, edge_weight, owner.numel())
        return cut_shard(graph, owner, rank, world_size, y, mask, x, num_classes)


def cut_shard(
    graph: CanonicalGraph,
    owner: Tensor,
    rank: int,
    world_size: int,
    y: OptTensor = None,
    mask: OptTensor = None,
    x: OptTensor = None,
    num_classes: int | None = None,
) -> Shard:
    """:meth:`Shard.from_graph` for a graph that is canonical already."""
    if not 0 <= rank < world_size:
        raise ValueError(f"'rank' must be in [0, world_size - 1], got {rank} (world_size = {world_size})")
    if owner.numel() and not 0 <= int(owner.min()) <= int(owner.max()) < world_size:
        raise ValueError(
            f"'owner' must hold ranks in [0, {world_size - 1}], got {int(owner.min())} to {int(owner.max())}"
        )
    node_id = (owner == rank).nonzero().view(-1)
    rowptr, col, edge = graph.csr_pattern
    start, end = rowptr.long()[node_id], rowptr.long()[node_id + 1]
    own_rowptr = torch.cat([start.new_zeros(1), (end - start).cumsum(0)])
    slot = torch.repeat_interleave(start - own_rowptr[:-1], end - start) + torch.arange(int(own_rowptr[-1]))
    other = col[slot].long()
    shard = shard_of_rows(
        rank,
        world_size,
        graph.num_nodes,
        node_id,
        own_rowptr,
        other,
        owner[other],
        graph.edge_weight[edge[slot].long()],
    )
    multi_label = y is not None and y.dim() == 2
    if y is not None and num_classes is None:
        known = y if mask is None or multi_label else y[mask]
        num_classes = y.size(1) if multi_label else int(known.max()) + 1 if known.numel() else None
    own_y = None if y is None else y[node_id]
    own_mask = None if mask is None else mask[node_id]
    own_x = None if x is None else x[node_id]
    return replace(shard, y=own_y, mask=own_mask, x=own_x, num_classes=num_classes, multi_label=multi_label)


def shard_of_rows(
    rank: int,
    world_size: int,
    num_nodes: int,
    node_id: Tensor,
    rowptr: Tensor,
    other: Tensor,
    other_owner: Tensor,
    weight: Tensor,
) -> Shard:
    """A shard from the rows of its nodes, the other ends in global numbers with the ranks that own them.

    The graph is symmetric, so a rank needs exactly those of our nodes that have an edge to it: the lists to send need
    no message.
    """
    outside = other_owner != rank
    key = other_owner.long() * num_nodes + other  # in the order of the halo: by owner, then by number
    halo_key = torch.unique(key[outside])
    halo_owner, halo_id = halo_key // max(num_nodes, 1), halo_key % max(num_nodes, 1)
    row = torch.repeat_interleave(torch.arange(node_id.numel()), rowptr[1:] - rowptr[:-1])
    needed = torch.unique(other_owner[outside].long() * max(node_id.numel(), 1) + row[outside])
    needed_by, needed_row = needed // max(node_id.numel(), 1), needed % max(node_id.numel(), 1)
    local = torch.empty_like(other)
    local[~outside] = torch.searchsorted(node_id, other[~outside])
    local[outside] = node_id.numel() + torch.searchsorted(halo_key, key[outside])
    short = torch.int32 if max(node_id.numel() + halo_id.numel(), other.numel()) < 2**31 else torch.long
    return Shard(
        rank=rank,
        world_size=world_size,
        num_nodes=num_nodes,
        node_id=node_id,
        halo_id=halo_id,
        rowptr=rowptr.to(short),
        col=local.to(short),
        weight=weight,
        send=list(needed_row.split(torch.bincount(needed_by, minlength=world_size).tolist())),
        recv_counts=torch.bincount(halo_owner, minlength=world_size).tolist(),
    )
