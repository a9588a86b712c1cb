"""Frozen features and a few labels: a linear head alone, CREPE alone, and both in turns.

Run ``python examples/features.py`` for scikit-learn's digits, or ``--features x.npy --labels y.npy`` for your own: an
embedding of shape [N, F], and classes of shape [N]. Some of the labels are shown to the methods, the others judge them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe import CrepePropagation, knn_graph
from tg_crepe.training import GraphTrainer, GraphTrainingConfig


class Head(nn.Module):
    """A linear layer as a network on a graph, which looks at no edge."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor | None) -> Tensor:
        """Logits of all rows."""
        return self.linear(x)


def load(features: Path | None, labels: Path | None) -> tuple[Tensor, Tensor]:
    if features is not None and labels is not None:
        x, y = (np.load(path, allow_pickle=False) for path in (features, labels))
    else:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
    x = torch.from_numpy(x).float()
    return (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-6), torch.from_numpy(y).long()


def draw(y: Tensor, per_class: int, seed: int) -> Tensor:
    mask, generator = torch.zeros_like(y, dtype=torch.bool), torch.Generator().manual_seed(seed)
    for c in y.unique():
        own = (y == c).nonzero().view(-1)
        mask[own[torch.randperm(own.numel(), generator=generator)[:per_class]]] = True
    return mask


def head_alone(data: Data, head: Head, epochs: int) -> Tensor:
    optimizer = torch.optim.Adam(head.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(head(data.x, None)[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    with torch.no_grad():
        return head(data.x, None).argmax(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description="A linear head and CREPE in turns on frozen features")
    parser.add_argument("--features", type=Path, help="x.npy of shape [N, F] (scikit-learn's digits)")
    parser.add_argument("--labels", type=Path, help="y.npy of shape [N]")
    parser.add_argument("--per-class", type=int, default=10, help="labels that are shown (10)")
    parser.add_argument("--epochs", type=int, default=200, help="of every head (200)")
    parser.add_argument("--seed", type=int, default=100, help="of the labels and the heads (100)")
    args = parser.parse_args()

    x, y = load(args.features, args.labels)
    mask = draw(y, args.per_class, args.seed)
    data, num_classes = Data(x=x, y=y, train_mask=mask), int(y.max()) + 1

    def head() -> Head:
        torch.manual_seed(args.seed)
        return Head(x.size(1), num_classes)

    def both() -> Tensor:
        config = GraphTrainingConfig(epochs=args.epochs, seed=args.seed)
        return GraphTrainer(data, head(), config=config).fit().data.pseudo_y

    def crepe_alone() -> Tensor:
        edge_index, edge_weight = knn_graph(x, k=20)
        return CrepePropagation().propagate(y, edge_index, mask, edge_weight).label

    print(
        f"{len(y):,} rows, {x.size(1)} features, {int(mask.sum())} labels, error on the {int((~mask).sum()):,} others"
    )
    print(f"{'method':<14}{'error %':>10}{'seconds':>10}")
    methods = {"head": lambda: head_alone(data, head(), args.epochs), "CREPE": crepe_alone, "head + CREPE": both}
    for name, run in methods.items():
        start = time.perf_counter()
        error = 100 * float((run() != y)[~mask].double().mean())
        print(f"{name:<14}{error:>10.1f}{time.perf_counter() - start:>10.1f}")


if __name__ == "__main__":
    main()
