from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self", bound="Constraint")


@dataclass(frozen=True)
class Constraint:
    r"""The set :math:`C` of the inner problem; this one is the whole space.

    Every set here is a product over nodes, so the projection works row by row and a backend can fuse it.
    """

    #: Whether the classes of a node exclude each other: then its label is the largest entry, else every positive one.
    coupled: ClassVar[bool] = False

    def project(self, u: Tensor) -> Tensor:
        """The nearest point of the set, of the shape of ``u``: :obj:`[num_nodes, num_classes]`."""
        return u

    def coupling_violation(self, u: Tensor) -> Tensor:
        """The largest :math:`|\\sum_l u^l(x)|` over the nodes where the set wants it to be zero, a scalar."""
        return u.new_zeros(())

    def margin_violation(self, u: Tensor) -> Tensor:
        """The largest shortfall of a labelled entry from its margin :math:`\\epsilon`, a scalar."""
        return u.new_zeros(())

    def at(self: Self, eps: float) -> Self:
        """The same set with another margin :math:`\\epsilon`; sets without labels have none."""
        return self


@dataclass(frozen=True)
class Coupling(Constraint):
    r"""The classes of a node sum to zero (eq. `constr_coupling`): :math:`\sum_l u^l(x) = 0` for every node.

    The projection subtracts the mean over classes.
    """

    coupled = True

    def project(self, u: Tensor) -> Tensor:
        """The nearest point of the set."""
        return u - u.mean(dim=1, keepdim=True)

    def coupling_violation(self, u: Tensor) -> Tensor:
        """The largest sum over classes."""
        return u.sum(dim=1).abs().max()


@dataclass(frozen=True)
class LabelCoupling(Constraint):
    r"""Coupling with label priors (eq. `constr_coupling2`).

    .. math::
        \sum_l u^l(x) = 0 \text{ if } x \notin \mathcal{L}, \qquad
        u^l(x) \geq \epsilon \text{ and } u^{l'}(x) \leq -\epsilon \; \forall l' \neq l \text{ if } x \in \mathcal{N}^l.

    An unlabelled row loses its mean; a labelled row is clamped, without a condition on its sum. (The third line of
    the paper's equation reads :math:`x \in \mathcal{L} \setminus \mathcal{N}^l`, which leaves the set empty for three
    classes or more.)

    Args:
        y (torch.Tensor): The class of every labelled node, :obj:`-1` elsewhere, of shape :obj:`[num_nodes]`.
        eps (float): The margin :math:`\epsilon > 0`.
    """

    coupled = True

    y: Tensor
    eps: float

    def project(self, u: Tensor) -> Tensor:
        """The nearest point of the set."""
        projected = u - u.mean(dim=1, keepdim=True)
        if u.device.type != "cpu":  # to look for the labelled rows would make a GPU wait
            return torch.where(self.y.unsqueeze(1) >= 0, self._clamp(u, self.y), projected)
        projected[self._rows] = self._clamp(u[self._rows], self.y[self._rows])
        return projected

    def coupling_violation(self, u: Tensor) -> Tensor:
        """The largest sum over classes at an unlabelled node."""
        return torch.where(self.y >= 0, 0.0, u.sum(dim=1).abs()).max()

    def margin_violation(self, u: Tensor) -> Tensor:
        """The largest shortfall of an entry at a labelled node."""
        rows = self._rows
        return (u[rows] - self._clamp(u[rows], self.y[rows])).abs().max() if rows.numel() else u.new_zeros(())

    def at(self, eps: float) -> LabelCoupling:
        """The same set with another margin."""
        other = replace(self, eps=eps)
        if "_rows" in self.__dict__:
            other.__dict__["_rows"] = self._rows
        return other

    @cached_property
    def _rows(self) -> Tensor:
        """The labelled nodes."""
        return (self.y >= 0).nonzero().view(-1)

    def _clamp(self, u: Tensor, y: Tensor) -> Tensor:
        """Rows of the classes ``y`` on their side of the margin."""
        own = y.unsqueeze(1) == torch.arange(u.size(1), device=u.device)
        return torch.where(own, u.clamp(min=self.eps), u.clamp(max=-self.eps))


@dataclass(frozen=True)
class IndependentLabels(Constraint):
    r"""Columns on their own, for multi-label data: :math:`u^l(x) \geq \epsilon` where finding :math:`l` is known to be
    present, :math:`u^l(x) \leq -\epsilon` where it is known to be absent, free elsewhere.

    Args:
        sign (torch.Tensor): :obj:`1` for present, :obj:`-1` for absent, :obj:`0` for unknown, of shape
            :obj:`[num_nodes, num_classes]`.
        eps (float): The margin :math:`\epsilon > 0`.
    """

    sign: Tensor
    eps: float

    def project(self, u: Tensor) -> Tensor:
        """The nearest point of the set."""
        u = torch.where(self.sign > 0, u.clamp(min=self.eps), u)
        return torch.where(self.sign < 0, u.clamp(max=-self.eps), u)

    def margin_violation(self, u: Tensor) -> Tensor:
        """The largest shortfall of a known entry."""
        return (u - self.project(u)).abs().max()

    def at(self, eps: float) -> IndependentLabels:
        """The same set with another margin."""
        return replace(self, eps=eps)


@dataclass(frozen=True)
class KnownValues(Constraint):
    r"""Values between 0 and 1, with those that are known held: :math:`u^l(x) = 1` where class :math:`l` is known to be
    present, :math:`u^l(x) = 0` where it is known to be absent, :math:`0 \leq u^l(x) \leq 1` elsewhere.

    Args:
        sign (torch.Tensor): :obj:`1` for present, :obj:`-1` for absent, :obj:`0` for unknown, of shape
            :obj:`[num_nodes, num_classes]`, of the type of the values.
    """

    sign: Tensor

    def project(self, u: Tensor) -> Tensor:
        """The nearest point of the set."""
        return u.clamp(self.lower, self.upper)

    @cached_property
    def lower(self) -> Tensor:
        """The lower bounds, of the shape of ``sign``."""
        return (self.sign > 0).to(self.sign.dtype)

    @cached_property
    def upper(self) -> Tensor:
        """The upper bounds, of the shape of ``sign``."""
        return (self.sign >= 0).to(self.sign.dtype)
