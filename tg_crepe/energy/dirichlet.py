from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_positive
from tg_crepe.energy.gradient import GraphGradient
from tg_crepe.graph.canonical import CanonicalGraph


def dirichlet_energy(u: Tensor, graph: CanonicalGraph, p: float) -> Tensor:
    r"""The normalised :math:`p`-Dirichlet energy of every class (eq. `model0`), each edge once.

    .. math::
        D_p(\mathbf{u}) = \sum_{e = (i, j)} w_{ij} \left| \frac{u_i}{d_i^{1/p}} - \frac{u_j}{d_j^{1/p}} \right|^p

    where :math:`w_{ij}` is the edge weight, :math:`d_i` the weighted degree and :math:`p \geq 1`.

    Args:
        u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`.
        graph (CanonicalGraph): The graph.
        p (float): The exponent, at least 1.

    Returns:
        torch.Tensor: One energy per class, in double precision, of shape :obj:`[num_classes]`.
    """
    check_positive("p", p)
    if p < 1:
        raise ValueError(f"'p' must be >= 1 (below, the energy is not convex), got {p}")
    return graph.communicator.sum(own_energy(u, graph, p))


def own_energy(u: Tensor, graph: CanonicalGraph, p: float = 1.0) -> Tensor:
    """What this process has of :func:`dirichlet_energy`; the sum over the processes is all of it."""
    # D_p is the p-th power of the p-norm of K with the roots of weights and degrees; at p = 1 that is K itself.
    weight, degree = graph.counted_weight.pow(1 / p), graph.local_degree.double().pow(1 / p)
    difference = GraphGradient()(graph.communicator.halo(u).double(), graph.edge_index, weight, degree)
    return difference.abs_().pow_(p).sum(dim=0)


def total_variation(u: Tensor, graph: CanonicalGraph) -> Tensor:
    r"""The 1-Laplacian energy :math:`J(\mathbf{u}) = \|W D^{-1} \mathbf{u}\|_1 = D_1(\mathbf{u})` of every class.

    Args:
        u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`.
        graph (CanonicalGraph): The graph.

    Returns:
        torch.Tensor: One energy per class, in double precision, of shape :obj:`[num_classes]`.
    """
    return dirichlet_energy(u, graph, p=1)


def ratio(energy: Tensor, norm: Tensor, precision: float = 0.0) -> Tensor:
    r"""The ratio :math:`R = J / H` of every class, and 0 for a class that has vanished.

    Args:
        energy (torch.Tensor): :math:`J \geq 0`, of shape :obj:`[num_classes]`.
        norm (torch.Tensor): :math:`H \geq 0`, of shape :obj:`[num_classes]`.
        precision (float, optional): A class has vanished when its :math:`H` is at most this times the largest: what
            is left of it is rounding. (default: :obj:`0.0`, :math:`H = 0` alone)
    """
    vanished = norm <= precision * norm.max() if precision > 0 and norm.numel() > 1 else norm == 0
    return torch.where(vanished, torch.zeros_like(energy), energy / torch.where(vanished, torch.ones_like(norm), norm))


def cut_ratio(label: Tensor, graph: CanonicalGraph, num_classes: int) -> Tensor:
    r"""The normalised Cheeger ratio of every class of a hard partition,
    :math:`\mathrm{cut}(A_l) / \min(\mathrm{vol}\, A_l, \mathrm{vol}\, \bar A_l)`: the ratio :math:`J/H` of
    :math:`d \mathbf{1}_{A_l}` with :math:`H` the degree median.

    Args:
        label (torch.Tensor): The class of every node, of shape :obj:`[num_nodes]`.
        graph (CanonicalGraph): The graph.
        num_classes (int): The number of classes.

    Returns:
        torch.Tensor: Of shape :obj:`[num_classes]`.
    """
    inside = label.unsqueeze(-1) == torch.arange(num_classes, device=label.device)
    communicator = graph.communicator
    first, second = graph.edge_index
    near = communicator.halo(inside)
    cut = communicator.sum(graph.counted_weight @ (near[first] ^ near[second]).double())
    volume = communicator.sum(graph.degree.double() @ inside.double())
    return ratio(cut, torch.minimum(volume, communicator.sum(graph.degree.double() @ (~inside).double())))
