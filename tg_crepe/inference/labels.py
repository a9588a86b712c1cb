from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe._checks import check_count, check_mask, check_tensor, first_indices
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.typing import OptTensor

#: Class ids may have gaps: so many ids for each class that has a label, and these besides.
_GAPS, _FEW = 100, 1000


@dataclass(frozen=True)
class Labels:
    r"""What is known of the nodes, in one form for multi-class and multi-label data.

    Args:
        sign (torch.Tensor): :obj:`1` (is), :obj:`-1` (is not) or :obj:`0` (unknown), int8 of shape
            :obj:`[num_nodes, num_classes]`.
        labelled (torch.Tensor): Which nodes have a known entry, bool of shape :obj:`[num_nodes]`.
        multi_label (bool): Whether the columns are findings on their own.
    """

    sign: Tensor
    labelled: Tensor
    multi_label: bool

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.sign.size(0)

    @property
    def num_classes(self) -> int:
        """The number of classes or findings."""
        return self.sign.size(1)

    def usable(self, inside: Tensor, communicator: Communicator = ALONE) -> Tensor:
        """Which classes can be inferred from the nodes ``inside``, bool of shape :obj:`[num_classes]`.

        A class needs a labelled node there, a finding a known positive and a known negative.
        """
        sign = self.sign[inside]
        present = communicator.max(torch.stack([(sign > 0).any(dim=0), (sign < 0).any(dim=0)]).long()) > 0
        return present.all(dim=0) if self.multi_label else present[0]


def read_labels(y: Tensor, mask: OptTensor, num_classes: int | None, num_nodes: int | None) -> Labels:
    """Checks labels and mask, of which there must be one, and reads ``y`` nowhere but at the labelled nodes.

    Args:
        y (torch.Tensor): Classes of shape :obj:`[num_nodes]` or :obj:`[num_nodes, 1]`, or findings of shape
            :obj:`[num_nodes, num_classes]`.
        mask (torch.Tensor, optional): Which nodes are labelled, or their indices.
        num_classes (int, optional): The number of classes.
        num_nodes (int, optional): The number of nodes.
    """
    labels = read_some_labels(y, mask, num_classes, num_nodes)
    if not bool(labels.labelled.any()):
        raise ValueError("'mask' must mark at least one labelled node, got none")
    return labels


def read_some_labels(y: Tensor, mask: OptTensor, num_classes: int | None, num_nodes: int | None) -> Labels:
    """:func:`read_labels` for a part of the nodes, which may be without labels."""
    check_tensor("y", y)
    if num_classes is not None:
        check_count("num_classes", num_classes)
    if y.dim() not in (1, 2) or y.numel() == 0:
        raise ValueError(
            "'y' must be of shape [num_nodes], [num_nodes, 1] or [num_nodes, num_classes], not empty, "
            f"got {list(y.shape)}"
        )
    if num_nodes is not None and y.size(0) != num_nodes:
        raise ValueError(f"'y' must have one row per node, num_nodes = {num_nodes}, got {y.size(0)}")
    chosen = None if mask is None else check_mask(mask, y.size(0))
    if chosen is not None and chosen.device != y.device:
        raise ValueError(f"'mask' must be on the device of 'y', {y.device}, got {chosen.device}")
    multi_label = y.dim() == 2 and (y.size(1) > 1 or y.is_floating_point())
    return (_findings if multi_label else _classes)(y, chosen, num_classes)


def _classes(y: Tensor, chosen: OptTensor, num_classes: int | None) -> Labels:
    """Exclusive classes."""
    if y.is_floating_point() or y.is_complex():
        raise ValueError(f"'y' of shape [num_nodes] must be of an integer dtype, got {y.dtype}")
    y = y.view(-1).long()
    if chosen is None:
        chosen = y >= 0
    y = torch.where(chosen, y, -1)
    bad = chosen & (y < 0)
    if bool(bad.any()):
        raise ValueError(f"'y' must be >= 0 where 'mask' is True, got {int(y[bad][0])} at node(s) {first_indices(bad)}")
    largest = int(y.max())
    if num_classes is None:
        num_classes = max(largest + 1, 1)
        present = y[chosen].unique().numel()
        if num_classes > _GAPS * present + _FEW:
            raise ValueError(
                f"'y' must number the classes without huge gaps, got the class {largest} and {present} class(es) in "
                "all; classes, y = torch.unique(y, return_inverse=True) numbers them, num_classes= insists"
            )
    elif largest >= num_classes:
        bad = y >= num_classes
        raise ValueError(
            f"'y' must be below num_classes = {num_classes} where 'mask' is True, got {int(y[bad][0])} at node(s) "
            f"{first_indices(bad)}"
        )
    _check_memory(y.numel(), num_classes)
    own = y.unsqueeze(1) == torch.arange(num_classes, device=y.device)
    sign = torch.where(chosen.unsqueeze(1), own.to(torch.int8) * 2 - 1, 0).to(torch.int8)
    return Labels(sign, chosen, multi_label=False)


def _check_memory(num_nodes: int, num_classes: int) -> None:
    """Raise where a table of probabilities alone would not fit the memory of the machine."""
    size = 4 * num_nodes * num_classes
    if size > 2**31 and hasattr(os, "sysconf") and size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise ValueError(
            f"'num_classes' must fit the memory, got {num_classes} for {num_nodes} nodes: {size / 2**30:.0f} GiB for "
            "the probabilities alone"
        )


def _findings(y: Tensor, chosen: OptTensor, num_classes: int | None) -> Labels:
    """Findings on their own, each known or not."""
    if num_classes is not None and num_classes != y.size(1):
        raise ValueError(f"'num_classes' must be the number of columns of 'y', {y.size(1)}, got {num_classes}")
    value = y.double()
    if chosen is not None:
        value = torch.where(chosen.unsqueeze(1), value, -1.0)
    value = torch.where(torch.isnan(value), -1.0, value)
    bad = ((value != -1) & (value != 0) & (value != 1)).any(dim=1)
    if bool(bad.any()):
        raise ValueError(
            "'y' of shape [num_nodes, num_classes] must hold 0, 1, and -1 or NaN for unknown where 'mask' is True, "
            f"got other values in row(s) {first_indices(bad)}"
        )
    sign = torch.where(value < 0, 0.0, 2 * value - 1).to(torch.int8)
    return Labels(sign, (sign != 0).any(dim=1), multi_label=True)
