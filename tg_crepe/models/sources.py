from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe.models.task import LabelTask


def sources(task: LabelTask) -> Tensor:
    """The known classes as columns of ones; for findings the known positives, then the known negatives."""
    positive = (task.sign > 0).to(task.sign.dtype)
    if not task.multi_label:
        return positive
    return torch.cat([positive, (task.sign < 0).to(task.sign.dtype)], dim=1)
