"""Labels dealt into parts, so that every label is judged by networks and energies that did not know it."""

from __future__ import annotations

import torch
from torch import Tensor


def deal_folds(y: Tensor, mask: Tensor, folds: int, seed: int) -> Tensor:
    r"""Deals the labels of every class into parts, round and round in a random order.

    Args:
        y (torch.Tensor): Classes, of shape :obj:`[num_nodes]`.
        mask (torch.Tensor): Which are known, bool of shape :obj:`[num_nodes]`.
        folds (int): The number of parts.
        seed (int): Of the order.

    Returns:
        torch.Tensor: The part of every labelled node, of shape :obj:`[num_nodes]`; :obj:`-1` for nodes that have no
        label or the only one of their class, which is never left out.
    """
    generator, part = torch.Generator().manual_seed(seed), torch.full_like(y, -1)
    for number in y[mask].unique().tolist():
        own = (mask & (y == number)).nonzero().view(-1)
        if own.numel() > 1:
            order = torch.randperm(own.numel(), generator=generator).to(own.device)
            part[own[order]] = torch.arange(own.numel(), device=own.device) % folds
    return part


def out_of_fold(prob: Tensor, part: Tensor, mask: Tensor) -> Tensor:
    r"""What networks say of every node, of a labelled one those alone that did not know its label.

    .. math::
        P_i = P_i^{(k)} \text{ where } i \text{ is in part } k, \qquad
        P_i = \frac{1}{K + 1} \sum_k P_i^{(k)} \text{ elsewhere},

    where :math:`P^{(k)}` is what the network without part :math:`k` says, and the last one knows all labels. Labels
    that are never left out have a row of NaN: no opinion.

    Args:
        prob (torch.Tensor): :math:`P^{(k)}`, of shape :obj:`[num_parts + 1, num_nodes, num_classes]`.
        part (torch.Tensor): The part of every node, see :func:`deal_folds`.
        mask (torch.Tensor): Which nodes are labelled, bool of shape :obj:`[num_nodes]`.

    Returns:
        torch.Tensor: Of shape :obj:`[num_nodes, num_classes]`, the form of evidence that energies take.
    """
    evidence = prob.mean(dim=0)
    evidence[mask] = torch.nan
    left = (part >= 0).nonzero().view(-1)
    evidence[left] = prob[part[left], left]
    return evidence
