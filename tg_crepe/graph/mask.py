from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_tensor


def label_mask(mask: Tensor, num_nodes: int) -> Tensor:
    """A bool mask of shape :obj:`[num_nodes]` from a bool mask or from node indices, checked."""
    check_tensor("mask", mask)
    if mask.dtype == torch.bool:
        if mask.dim() == 2 and mask.size(1) > 1:
            raise ValueError(
                f"'mask' must be of shape [num_nodes], got {list(mask.shape)}: it holds several splits, pick one "
                "(for example data.train_mask = data.train_mask[:, 0])"
            )
        if mask.numel() != num_nodes or mask.dim() not in (1, 2):
            raise ValueError(f"'mask' must be of shape [num_nodes] = [{num_nodes}], got {list(mask.shape)}")
        return mask.view(-1)
    if mask.dtype not in (torch.int64, torch.int32) or mask.dim() != 1:
        raise ValueError(
            f"'mask' must be bool of shape [num_nodes] or a 1-D tensor of node indices, got {mask.dtype} "
            f"of shape {list(mask.shape)}"
        )
    bad = (mask < 0) | (mask >= num_nodes)
    if bool(bad.any()):
        raise ValueError(f"'mask' must hold node indices in [0, {num_nodes - 1}], got {int(mask[bad][0])}")
    full = torch.zeros(num_nodes, dtype=torch.bool, device=mask.device)
    full[mask.long()] = True
    return full
