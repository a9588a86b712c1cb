from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing


class GraphGradient(MessagePassing):
    r"""The normalised graph gradient :math:`K = W D^{-1}` of the energy :math:`J(\mathbf{u}) = \|K\mathbf{u}\|_1`
    from the `"Energy Models for Better Pseudo-Labels: Improving Semi-Supervised Classification with the 1-Laplacian
    Graph Energy" <https://arxiv.org/abs/1906.08635>`_ paper.

    .. math::
        (K\mathbf{u})_e = w_{ij} \left( \frac{u_i}{d_i} - \frac{u_j}{d_j} \right), \qquad e = (i, j),\; i < j,

    where :math:`w_{ij}` is the edge weight and :math:`d_i` the weighted degree. Its kernel on a connected graph is
    spanned by the degree: :math:`K\mathbf{d} = \mathbf{0}`. A node without edges (:math:`d_i = 0`) takes no part.

    .. code-block:: python

        gradient = GraphGradient()
        difference = gradient(u, edge_index, edge_weight, degree)         # [num_edges, num_classes]
        divergence = gradient.adjoint(dual, edge_index, edge_weight, degree)  # [num_nodes, num_classes]
    """

    def __init__(self) -> None:
        # The paper's e = (i, j): i is the first row of `edge_index`.
        super().__init__(aggr="add", flow="target_to_source")

    def forward(self, u: Tensor, edge_index: Tensor, edge_weight: Tensor, degree: Tensor) -> Tensor:
        r"""Computes :math:`K\mathbf{u}`.

        Args:
            u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`.
            edge_index (torch.Tensor): Every edge once, of shape :obj:`[2, num_edges]`.
            edge_weight (torch.Tensor): Their weights, of shape :obj:`[num_edges]`.
            degree (torch.Tensor): The weighted degree, of shape :obj:`[num_nodes]`.

        Returns:
            torch.Tensor: The weighted differences, of shape :obj:`[num_edges, num_classes]`.
        """
        v = u * inverse_degree(degree).unsqueeze(-1)
        return self.edge_updater(edge_index, v=v, edge_weight=edge_weight)

    def edge_update(self, v_i: Tensor, v_j: Tensor, edge_weight: Tensor) -> Tensor:
        """The weighted difference across an edge."""
        return edge_weight.unsqueeze(-1) * (v_i - v_j)

    def adjoint(self, dual: Tensor, edge_index: Tensor, edge_weight: Tensor, degree: Tensor) -> Tensor:
        r"""Computes :math:`K^* \mathbf{z}`, with
        :math:`(K^*\mathbf{z})_i = \frac{1}{d_i} \left( \sum_{e = (i, j)} w_e z_e - \sum_{e = (j, i)} w_e z_e \right)`.

        Args:
            dual (torch.Tensor): One value per edge and class, of shape :obj:`[num_edges, num_classes]`.
            edge_index (torch.Tensor): Every edge once, of shape :obj:`[2, num_edges]`.
            edge_weight (torch.Tensor): Their weights, of shape :obj:`[num_edges]`.
            degree (torch.Tensor): The weighted degree, of shape :obj:`[num_nodes]`.

        Returns:
            torch.Tensor: The divergence, of shape :obj:`[num_nodes, num_classes]`.
        """
        flow = edge_weight.unsqueeze(-1) * dual
        both_ways = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        size = (degree.numel(), degree.numel())
        total = self.propagate(both_ways, flow=torch.cat([flow, -flow]), size=size)
        return total * inverse_degree(degree).unsqueeze(-1)

    def message(self, flow: Tensor) -> Tensor:
        """What an edge brings to the node that it leaves."""
        return flow


def inverse_degree(degree: Tensor) -> Tensor:
    """:math:`1/d_i`, and 0 for a node without edges, whose column of :math:`K` is empty."""
    return torch.where(degree > 0, 1 / degree, torch.zeros_like(degree))


def dual_step(edge_index: Tensor, degree: Tensor) -> Tensor:
    r"""The diagonal dual step :math:`\rho\, \sigma_e w_e` at :math:`\rho = 1`, of shape :obj:`[num_edges]`.

    .. math::
        \tau_i = \frac{\rho}{\sum_e |K_{ei}|} = \rho, \qquad
        \sigma_e = \frac{1}{\rho \sum_i |K_{ei}|} = \frac{1}{\rho\, w_e (1/d_i + 1/d_j)}.

    Every column of :math:`|K|` sums to exactly 1, and :math:`\|\Sigma^{1/2} K T^{1/2}\| \leq 1` for every
    :math:`\rho`. Multiplied by :math:`w_e`, the step applies to :math:`u_i/d_i - u_j/d_j` and never divides by a
    small weight.
    """
    first, second = inverse_degree(degree)[edge_index]
    return 1 / (first + second)
