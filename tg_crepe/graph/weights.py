from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Names of the kernels that turn distances to neighbours into weights.
KERNELS = ("gaussian", "cosine", "uniform")


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
