from __future__ import annotations

import warnings

import torch
from torch import Tensor


def sparse_csr(rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor, without torch's notice that these are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rowptr, col, value, size=shape, check_invariants=False)
