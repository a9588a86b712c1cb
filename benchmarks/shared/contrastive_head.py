"""A linear model on features that were tuned by pairs of labelled rows: the idea of SetFit, on frozen features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

#: The width of the adapter, the partners of a row among its own class and among the others, pairs per step, and the
#: step size, the best of three on other draws (seeds 100 and 101).
WIDTH, PARTNERS, BATCH, STEP = 64, 20, 64, 3e-4


class ContrastiveHead:
    r"""Few-shot learning by pairs, then logistic regression (Tunstall et al. 2022, `arXiv:2209.11055
    <https://arxiv.org/abs/2209.11055>`_).

    SetFit fine-tunes the network that makes the features. Here these are given, and what is tuned is a small adapter
    behind them, :math:`a(x) = x + B \max(A x, 0)` with :math:`B = 0` at first, by

    .. math::
        \min_{A, B} \sum_{(i, j)} \left( \cos(a(x_i), a(x_j)) - [y_i = y_j] \right)^2

    over pairs of labelled rows, as many of one class as of two, in one pass as in the paper.

    Args:
        seed (int, optional): Of the first weights and of the pairs. (default: :obj:`0`)
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> ContrastiveHead:
        """Learns from labelled rows, of shapes ``[num_rows, num_features]`` and ``[num_rows]``."""
        from sklearn.linear_model import LogisticRegression

        rows = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        generator = torch.Generator().manual_seed(self.seed)
        self.adapter_ = _Adapter(rows.size(1), generator)
        _tune(self.adapter_, rows, torch.from_numpy(np.asarray(y)), generator)
        self.model_: Any = LogisticRegression(max_iter=1000).fit(self._tuned(rows), y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The classes of rows."""
        return np.asarray(self.model_.predict(self._tuned(torch.from_numpy(np.asarray(x, dtype=np.float32)))))

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Their probabilities, in the order of ``classes_``."""
        return np.asarray(self.model_.predict_proba(self._tuned(torch.from_numpy(np.asarray(x, dtype=np.float32)))))

    @property
    def classes_(self) -> np.ndarray:
        """The classes of the labels."""
        return np.asarray(self.model_.classes_)

    @torch.no_grad()
    def _tuned(self, rows: Tensor) -> np.ndarray:
        return self.adapter_(rows).numpy()


class _Adapter(nn.Module):
    """A correction of low rank that begins as none."""

    def __init__(self, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.into = nn.Parameter(torch.randn(size, WIDTH, generator=generator) / size**0.5)
        self.out = nn.Parameter(torch.zeros(WIDTH, size))

    def forward(self, rows: Tensor) -> Tensor:
        return rows + (rows @ self.into).relu() @ self.out


def _tune(adapter: _Adapter, rows: Tensor, y: Tensor, generator: torch.Generator) -> None:
    """One pass over the pairs."""
    first, second = _pairs(y, generator)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=STEP)
    for batch in torch.randperm(len(first), generator=generator).split(BATCH):
        one, other = first[batch], second[batch]
        cosine = torch.cosine_similarity(adapter(rows[one]), adapter(rows[other]))
        loss = (cosine - (y[one] == y[other]).float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _pairs(y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Every row with partners of its own class and as many of others; a row that is alone in its class has only the
    latter."""
    first, second = [], []
    same = (y.unsqueeze(0) == y.unsqueeze(1)).fill_diagonal_(False)
    other = y.unsqueeze(0) != y.unsqueeze(1)
    for allowed in (same, other):
        some = allowed.any(dim=1).nonzero().view(-1)
        if len(some):
            first.append(some.repeat_interleave(PARTNERS))
            drawn = torch.multinomial(allowed[some].float(), PARTNERS, replacement=True, generator=generator)
            second.append(drawn.view(-1))
    return torch.cat(first), torch.cat(second)
