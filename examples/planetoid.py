"""Citation graphs with the words of their papers: a GCN alone, CREPE alone, and both in turns.

Run ``python examples/planetoid.py --root DIR --name Cora``, where DIR holds the files of PyG's ``Planetoid`` data set
(``DIR/Cora/raw/ind.cora.x`` and so on); it is only read. Without them the script runs on a random graph of seven
blocks. ``python benchmarks/contest graphs`` compares on many draws of the labels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GCN
from torch_geometric.utils import stochastic_blockmodel_graph

from tg_crepe import CrepePropagation, GraphWarning
from tg_crepe.training import GraphTrainer, GraphTrainingConfig


def load(raw: Path, name: str) -> Data:
    with tempfile.TemporaryDirectory() as folder:  # PyG writes what it has read next to the raw files
        copy = Path(folder, name, "raw")
        copy.mkdir(parents=True)
        for file in raw.iterdir():
            shutil.copyfile(file, copy / file.name)
        return Planetoid(folder, name, split="public", transform=T.NormalizeFeatures())[0]


def stand_in(blocks: int = 7, size: int = 60, labels: int = 10) -> Data:
    torch.manual_seed(0)
    edge_index = stochastic_blockmodel_graph([size] * blocks, 0.002 + 0.02 * torch.eye(blocks))
    y = torch.arange(blocks).repeat_interleave(size)
    words = (torch.rand(blocks * size, 10 * blocks) < 0.05 + 0.15 * F.one_hot(y, blocks).repeat(1, 10)).float()
    train_mask = torch.arange(blocks * size) % size < labels
    return Data(x=words, edge_index=edge_index, y=y, train_mask=train_mask, test_mask=~train_mask)


def gcn_alone(data: Data, network: GCN, epochs: int) -> Tensor:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        logits = network(data.x, data.edge_index)
        F.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    with torch.no_grad():
        return network.eval()(data.x, data.edge_index).argmax(dim=1)


def crepe_alone(data: Data) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # unreached nodes count as errors
        return CrepePropagation().propagate(data.y, data.edge_index, data.train_mask).label


def main() -> None:
    parser = argparse.ArgumentParser(description="A GCN and CREPE in turns on a citation graph")
    shared = os.environ.get("TG_CREPE_DATA")
    default = Path(shared, "planetoid") if shared else None
    parser.add_argument("--root", type=Path, default=default, help="Planetoid's folder ($TG_CREPE_DATA/planetoid)")
    parser.add_argument("--name", choices=["Cora", "CiteSeer", "PubMed"], default="Cora")
    parser.add_argument("--epochs", type=int, default=200, help="of every network (200)")
    parser.add_argument("--seed", type=int, default=100, help="of the networks (100)")
    args = parser.parse_args()

    raw = None if args.root is None else args.root / args.name / "raw"
    if raw is not None and raw.is_dir():
        data, title = load(raw, args.name), f"{args.name}, public split"
    else:
        where = "neither --root nor TG_CREPE_DATA is set" if raw is None else f"there is no {raw}"
        print(f"{where}: this is a synthetic stand-in, not {args.name}")
        data, title = stand_in(), "stochastic block model (stand-in)"

    def network() -> GCN:
        torch.manual_seed(args.seed)
        return GCN(data.num_features, 16, num_layers=2, out_channels=int(data.y.max()) + 1, dropout=0.5)

    def both() -> Tensor:
        config = GraphTrainingConfig(epochs=args.epochs, seed=args.seed)
        trainer = GraphTrainer(data, network(), config=config).fit()
        trust = ", ".join(f"{name} {value:.2f}" for name, value in trainer.final["trust"].items())
        share = " : ".join(f"{value:.2f}" for value in trainer.final["share"])
        print(f"edges : neighbours of the features = {share}; exponents of the pool: {trust}")
        return trainer.data.pseudo_y

    labels, test = int(data.train_mask.sum()), int(data.test_mask.sum())
    print(f"{title}: {data.num_nodes:,} nodes, {labels} labels, error on {test:,} test nodes")
    rows = []
    methods = {"GCN": lambda: gcn_alone(data, network(), args.epochs), "CREPE": lambda: crepe_alone(data)}
    for name, run in {**methods, "GCN + CREPE": both}.items():
        start = time.perf_counter()
        error = 100 * float((run() != data.y)[data.test_mask].double().mean())
        rows.append(f"{name:<14}{error:>10.1f}{time.perf_counter() - start:>10.1f}")
    print(f"{'method':<14}{'error %':>10}{'seconds':>10}", *rows, sep="\n")


if __name__ == "__main__":
    main()
