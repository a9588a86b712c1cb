"""Two moons, one random label per class: CREPE beside other models on the same graph.

Run ``python examples/two_moons.py --noise 0.1 --seeds 20``.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor
from torch_geometric.nn import LabelPropagation
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from tg_crepe import LGC, CrepePropagation, EnergyModel, GraphWarning, Harmonic, knn_graph

NUM_NODES, K = 1000, 10

Predict = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def ours(model: EnergyModel) -> Predict:
    def predict(y: Tensor, edge_index: Tensor, mask: Tensor, edge_weight: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphWarning)  # unreached nodes: counted in the table instead
            return model.propagate(y, edge_index, mask, edge_weight).label

    return predict


def pyg(y: Tensor, edge_index: Tensor, mask: Tensor, edge_weight: Tensor) -> Tensor:
    # PyG normalises a graph only when it has no weights, and reads every entry of `y` as a class.
    edge_index, edge_weight = gcn_norm(edge_index, edge_weight, y.numel(), add_self_loops=False)
    model = LabelPropagation(num_layers=50, alpha=0.9)
    return model(torch.where(mask, y, 0), edge_index, mask, edge_weight).argmax(dim=1)


MODELS: dict[str, Predict] = {
    "CREPE": ours(CrepePropagation()),
    "LGC": ours(LGC(alpha=0.99)),
    "Harmonic": ours(Harmonic()),
    "PyG LabelPropagation": pyg,
}


def one_seed(noise: float, seed: int) -> list[dict[str, object]]:
    points, classes = make_moons(NUM_NODES, noise=noise, random_state=seed)
    rng = np.random.default_rng(seed)
    mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    for label in (0, 1):
        mask[rng.choice(np.flatnonzero(classes == label))] = True
    y = torch.from_numpy(classes)
    edge_index, edge_weight = knn_graph(torch.from_numpy(points).float(), k=K, metric="euclidean")

    rows: list[dict[str, object]] = []
    for name, predict in MODELS.items():
        start = time.perf_counter()
        label = predict(y, edge_index, mask, edge_weight)
        seconds = time.perf_counter() - start
        error = 100 * float((label != y)[~mask].double().mean())  # an unreached node, -1, is an error
        unreached = int((label < 0).sum())
        rows.append(
            {"model": name, "noise": noise, "seed": seed, "error": error, "unreached": unreached, "seconds": seconds}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="CREPE and other models on two moons, one label per class")
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of the noise (0.1)")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds (20)")
    parser.add_argument("--start-seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--csv", metavar="FILE", help="write one row per seed and model")
    args = parser.parse_args()
    if args.seeds < 1 or args.start_seed < 0 or args.noise < 0:
        parser.error("--seeds must be at least 1, --start-seed and --noise at least 0")

    seeds = range(args.start_seed, args.start_seed + args.seeds)
    rows = [row for seed in seeds for row in one_seed(args.noise, seed)]
    print(f"two moons: {NUM_NODES} nodes, noise {args.noise}, k = {K}, one label per class, {args.seeds} seed(s)")
    print(f"{'model':<22}{'error %':>14}{'unreached':>12}{'seconds':>10}")
    for name in MODELS:
        mine = [row for row in rows if row["model"] == name]
        error, unreached, seconds = (np.array([row[key] for row in mine]) for key in ("error", "unreached", "seconds"))
        spread = f"{error.mean():.2f} ± {error.std():.2f}"
        print(f"{name:<22}{spread:>14}{unreached.sum():>12}{seconds.mean():>10.3f}")

    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
