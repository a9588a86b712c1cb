from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe.energy.dirichlet import cut_ratio, ratio, total_variation
from tg_crepe.energy.normaliser import NORMALISERS, along_degree, get_normaliser
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.solvers.ratio_flow import RatioFlow
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import Adjacency, OptTensor
from tg_crepe.warnings import ConvergenceWarning, GraphWarning


@dataclass
class CheegerPartition:
    r"""A graph cut in two.

    Args:
        partition (torch.Tensor): The side of every node, bool of shape :obj:`[num_nodes]`.
        ratio (float): The normalised Cheeger ratio
            :math:`\mathrm{cut}(A, \bar A) / \min(\mathrm{vol}\, A, \mathrm{vol}\, \bar A)` of the partition.
        u (torch.Tensor): The end of the flow, of shape :obj:`[num_nodes]`; 0 at isolated nodes.
        trace (Trace): One row per step.
        status (str): How the flow ended.
    """

    partition: Tensor
    ratio: float
    u: Tensor
    trace: Trace
    status: Status


@torch.no_grad()
def cheeger_partition(
    edge_index: Adjacency,
    edge_weight: OptTensor = None,
    num_nodes: int | None = None,
    normaliser: str = "degree_median",
    max_steps: int = 100,
) -> CheegerPartition:
    r"""Cuts a graph in two without any label, by the binary ratio flow of the normalised 1-Laplacian (eq. `pde`).

    .. math::
        \frac{u_{k+1/2} - u_k}{\delta t} = R(u_k) (q_k - \tilde q_k) - \phi_{k+1/2}, \qquad
        u_{k+1} = \frac{u_{k+1/2}}{\|u_{k+1/2}\|_2},

    where :math:`R = J/H` never increases. It starts from :math:`u_0 = D\psi` (its part along :math:`d` removed) with
    :math:`\psi` the second right eigenvector of the random walk :math:`D^{-1} W`, and the sides are the signs of the
    last iterate. The time step is :math:`\delta t = s / R(u_0)` with :math:`s` the mean of :math:`|u_k|`.

    .. code-block:: python

        from tg_crepe import cheeger_partition, knn_graph

        edge_index, edge_weight = knn_graph(x, k=10, metric="euclidean")
        side = cheeger_partition(edge_index, edge_weight).partition

    Args:
        edge_index: The graph, in any form that the models take.
        edge_weight (torch.Tensor, optional): Its weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
        num_nodes (int, optional): The number of nodes. (default: :obj:`None`, from the graph)
        normaliser (str, optional): :math:`H`: :obj:`"l1"`, :obj:`"l2"`, :obj:`"median"`, :obj:`"degree_median"` or
            :obj:`"degree_quantile"`. (default: :obj:`"degree_median"`)
        max_steps (int, optional): The largest number of steps. (default: :obj:`100`)
    """
    check_choice("normaliser", normaliser, NORMALISERS)
    whole, notes = canonical_graph(edge_index, edge_weight, num_nodes)
    whole = whole.in_safe_range()
    connected = whole.degree > 0
    if int(connected.sum()) < 2:
        raise ValueError(f"'edge_index' must hold at least one edge between two nodes, got {whole.num_edges}")
    isolated = int((~connected).sum())
    if isolated:
        notes.append(f"{isolated} isolated node(s) put on the side of False")
    if notes:
        warnings.warn("the graph was repaired: " + "; ".join(notes), GraphWarning, stacklevel=3)

    graph = whole.subgraph(connected)
    psi = smallest_eigenpairs(graph, 2, residual=1e-4)[1][:, 1:] / graph.degree.double().sqrt().unsqueeze(-1)
    u0 = graph.degree.double().unsqueeze(-1) * psi
    u0 = (u0 - along_degree(u0, graph.degree.double())).to(graph.edge_weight.dtype)
    rate = float(ratio(total_variation(u0, graph), get_normaliser(normaliser)(u0.double(), graph.degree.double())[0]))
    # A vanishing ratio means separate components, found already; the step is capped there.
    flow = RatioFlow(normaliser, time_step=1 / max(rate, 1e-6), max_steps=max_steps)
    result = flow(u0, graph)
    if result.status != "converged":
        warnings.warn(f"the partition ended with status {result.status!r}", ConvergenceWarning, stacklevel=3)

    u = whole.edge_weight.new_zeros(whole.num_nodes)
    u[connected] = result.u.view(-1)
    partition = u > 0
    return CheegerPartition(partition, _cheeger_ratio(partition, whole), u, result.trace, result.status)


def _cheeger_ratio(partition: Tensor, graph: CanonicalGraph) -> float:
    """The cut over the smaller of the two volumes."""
    return float(cut_ratio(partition.long(), graph, 2)[0])
