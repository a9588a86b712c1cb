"""Which nodes are labelled: a function of the classes, the kind of split and the seed alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """How many labels are given: a share of every class, as many of every class, or those of the public split."""

    kind: str  # "share", "count" or "public"
    amount: float = 0.0

    def __str__(self) -> str:
        if self.kind == "public":
            return "public split"
        return f"{100 * self.amount:g} %" if self.kind == "share" else f"{self.amount:g} per class"


def choose_labels(y: Tensor, split: Split, seed: int) -> Tensor:
    """A stratified random choice of nodes, bool of shape [num_nodes]; every class keeps a label and an unlabelled node.

    Args:
        y (torch.Tensor): The true classes, of shape :obj:`[num_nodes]`.
        split (Split): A share or a number.
        seed (int): The seed of the choice.
    """
    rng = np.random.default_rng(seed)
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    for c in range(int(y.max()) + 1):
        members = np.flatnonzero(y.numpy() == c)
        count = max(1, round(split.amount * len(members))) if split.kind == "share" else int(split.amount)
        if count >= len(members):
            raise ValueError(f"'split' must leave a node of every class unlabelled, got {split} of {len(members)}")
        mask[rng.choice(members, count, replace=False)] = True
    return mask
