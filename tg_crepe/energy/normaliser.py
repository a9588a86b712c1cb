from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk
from tg_crepe.energy.gradient import inverse_degree
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import inner, plain_sum, shared_quantile, weighted_sum
from tg_crepe.typing import OptTensor


class Normaliser(Protocol):
    r"""The one-homogeneous :math:`H` in the ratio :math:`R = J/H`, with a subgradient :math:`q \in \partial H(u)`.

    Every class (column) is treated on its own; :math:`H(u) = \langle q, u \rangle` and
    :math:`H(u') \geq \langle q, u' \rangle` for all :math:`u'`.
    """

    def __call__(self, u: Tensor, degree: Tensor, communicator: Communicator = ALONE) -> tuple[Tensor, Tensor]:
        """The value of shape :obj:`[num_classes]` and the subgradient of the shape of ``u``.

        Args:
            u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`; the subgradient has their
                type, the value is summed in double precision.
            degree (torch.Tensor): The weighted degree, of shape :obj:`[num_nodes]`.
            communicator (Communicator, optional): What connects the processes that hold other nodes.
                (default: one process holds all)
        """
        ...


class L1:
    r""":math:`H(u) = \|u\|_1`, :math:`q = \operatorname{sign}(u)` with :math:`\operatorname{sign}(0) = 0`."""

    def __call__(self, u: Tensor, degree: Tensor, communicator: Communicator = ALONE) -> tuple[Tensor, Tensor]:
        """Value and subgradient."""
        return communicator.sum(u.abs().sum(dim=0, dtype=torch.float64)), u.sign()


class L2:
    r""":math:`H(u) = \|u\|_2`, :math:`q = u / \|u\|_2`, and 0 where :math:`u = 0`."""

    def __call__(self, u: Tensor, degree: Tensor, communicator: Communicator = ALONE) -> tuple[Tensor, Tensor]:
        """Value and subgradient."""
        norm = u.double().norm(dim=0)
        if communicator.world_size > 1:
            norm = communicator.sum(norm.square()).sqrt()
        return norm, u / torch.where(norm > 0, norm, torch.ones_like(norm)).to(u.dtype)


class Quantile:
    r"""The balanced norms around a quantile, of which the medians are the symmetric case.

    .. math::
        H(u) = \min_c \sum_i m_i \left[ 2(1 - \pi)(v_i - c)_+ + 2\pi (c - v_i)_+ \right], \qquad v_i = u_i / m_i,

    where :math:`m` is a positive mass (all ones, or the degree) and :math:`\pi` the class volume. The minimum is at
    the :math:`m`-weighted :math:`(1-\pi)`-quantile :math:`c` of :math:`v`. The subgradient is :math:`2(1-\pi)` above
    :math:`c` and :math:`-2\pi` below; the nodes at :math:`c` share the value that makes
    :math:`\langle q, m \rangle = 0`. With :math:`\pi = 1/2` this is
    :math:`\sum_i m_i |v_i - \operatorname{median}(v)|`. :math:`H` is a seminorm: zero along :math:`m`.

    Args:
        volume (torch.Tensor, optional): :math:`\pi_l \in (0, 1)`, of shape :obj:`[num_classes]`.
            (default: :obj:`None`, one half)
        degree_mass (bool, optional): Whether the mass is the degree. (default: :obj:`True`)
    """

    def __init__(self, volume: OptTensor = None, degree_mass: bool = True) -> None:
        if volume is not None and not bool(((volume > 0) & (volume < 1)).all()):
            raise ValueError(f"'volume' must lie in (0, 1) for every class, got {volume.tolist()}")
        self.volume = volume
        self.degree_mass = degree_mass

    def __call__(self, u: Tensor, degree: Tensor, communicator: Communicator = ALONE) -> tuple[Tensor, Tensor]:
        """Value and subgradient."""
        mass = degree if self.degree_mass else torch.ones_like(degree)
        v = u * inverse_degree(mass).unsqueeze(-1)
        volume = u.new_full((u.size(1),), 0.5) if self.volume is None else self.volume.to(u)
        above, below = 2 * (1 - volume), -2 * volume
        centred = v.sub_(_weighted_quantile(v, mass, 1 - volume, communicator))
        tied = centred == 0
        q = torch.where(centred > 0, above, below).masked_fill_(tied, 0)
        value, tied_mass, excess = communicator.sums(
            weighted_sum(mass, centred.mul_(q)), weighted_sum(mass, tied), weighted_sum(mass, q)
        )
        share = -excess / torch.where(tied_mass > 0, tied_mass, torch.ones_like(tied_mass))
        # Rounding may carry the share a hair outside of the subdifferential.
        share = torch.minimum(torch.maximum(share.to(u.dtype), below), above)
        return value, torch.where(tied, share, q, out=q)


def _weighted_quantile(v: Tensor, mass: Tensor, level: Tensor, communicator: Communicator = ALONE) -> Tensor:
    """The smallest value of each column below or at which at least ``level`` of the mass lies."""
    if communicator.world_size > 1:
        total = plain_sum(mass, communicator)
        return shared_quantile(v.unbind(1), [mass] * v.size(1), level.double() * total, communicator).view(1, -1)
    find = _selected_quantile if v.device.type == "cpu" and available("numba") else _sorted_quantile
    return find(v.t(), mass.contiguous(), level.double()).view(1, -1)


def _sorted_quantile(rows: Tensor, mass: Tensor, level: Tensor) -> Tensor:
    """The quantile of every row; all of them are sorted, which no GPU has to wait for."""
    ordered, order = rows.sort(dim=1)
    cumulative = mass[order].cumsum(dim=1, dtype=torch.float64)
    wanted = level.unsqueeze(1) * cumulative[:, -1:]
    position = torch.searchsorted(cumulative, wanted).clamp(max=rows.size(1) - 1)
    return ordered.gather(1, position)


def _selected_quantile(rows: Tensor, mass: Tensor, level: Tensor) -> Tensor:
    """The same without sorting, by compiled code, a row per thread."""
    from tg_crepe.energy.quantile_kernel import select_quantile

    wanted = (level * plain_sum(mass)).tolist()
    ordered = rows.clone(memory_format=torch.contiguous_format).add_(0.0)  # zero makes one number of the two zeros
    bits = ordered.view(torch.int32 if rows.dtype == torch.float32 else torch.int64).numpy()
    found, masses = np.empty(len(bits), dtype=bits.dtype), mass.numpy()

    def work(row: int) -> None:
        found[row] = select_quantile(bits[row], masses, wanted[row])

    for_each_chunk(work, len(bits))
    return torch.from_numpy(found).view(rows.dtype)


#: Names of the normalisers.
NORMALISERS = ("l1", "l2", "median", "degree_median", "degree_quantile")


def get_normaliser(name: str, volume: OptTensor = None, num_classes: int = 2) -> Normaliser:
    r"""The normaliser of a name.

    Args:
        name (str): :obj:`"l1"`, :obj:`"l2"`, :obj:`"median"`, :obj:`"degree_median"` or :obj:`"degree_quantile"`.
        volume (torch.Tensor, optional): Class volumes of :obj:`"degree_quantile"`, of shape :obj:`[num_classes]`.
            (default: :obj:`None`, :obj:`1 / num_classes` each)
        num_classes (int, optional): For that default. (default: :obj:`2`)
    """
    check_choice("normaliser", name, NORMALISERS)
    if name == "l1":
        return L1()
    if name == "l2":
        return L2()
    if name == "median":
        return Quantile(degree_mass=False)
    if name == "degree_median":
        return Quantile()
    return Quantile(torch.full((num_classes,), 1 / num_classes) if volume is None else volume)


def along_degree(q: Tensor, degree: Tensor, communicator: Communicator = ALONE) -> Tensor:
    r"""The part :math:`\tilde q = \frac{\langle d, q \rangle}{\langle d, d \rangle} d` of every class along the degree.

    Args:
        q (torch.Tensor): Of shape :obj:`[num_nodes, num_classes]`.
        degree (torch.Tensor): Of shape :obj:`[num_nodes]`.
        communicator (Communicator, optional): What connects the processes that hold other nodes.
            (default: one holds all)
    """
    along, square = communicator.sums(weighted_sum(degree, q), inner(degree, degree))
    share = along / square
    return degree.unsqueeze(-1) * share.to(q.dtype)
