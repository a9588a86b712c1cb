"""Type aliases used throughout the package."""

from __future__ import annotations

from typing import Any, TypeAlias

from torch import Tensor

OptTensor: TypeAlias = Tensor | None

#: Whatever a user calls a graph: ``edge_index``, a torch or SciPy sparse matrix, a ``torch_sparse.SparseTensor``, or a
#: :class:`~tg_crepe.PreparedGraph`.
Adjacency: TypeAlias = Any
