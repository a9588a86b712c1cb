"""Citation graphs with their public split: CREPE beside other models, by the graph alone.

Run ``python examples/cora.py --root DIR --name Cora``, where DIR holds the files of PyG's ``Planetoid`` data set
(``DIR/Cora/raw/ind.cora.x`` and so on); it is only read. Without them the script runs on a random graph of seven
blocks.
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
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import LabelPropagation
from torch_geometric.utils import stochastic_blockmodel_graph

from tg_crepe import LGC, CrepePropagation, EnergyModel, GraphWarning, Harmonic


def load(raw: Path, name: str) -> Data:
    with tempfile.TemporaryDirectory() as folder:  # PyG writes what it has read next to the raw files
        copy = Path(folder, name, "raw")
        copy.mkdir(parents=True)
        for file in raw.iterdir():
            shutil.copyfile(file, copy / file.name)
        return Planetoid(folder, name, split="public")[0]


def stand_in(blocks: int = 7, size: int = 200, labels: int = 20) -> Data:
    torch.manual_seed(0)
    inside, outside = 0.02, 0.001
    probability = outside + (inside - outside) * torch.eye(blocks)
    edge_index = stochastic_blockmodel_graph([size] * blocks, probability)
    y = torch.arange(blocks).repeat_interleave(size)
    train_mask = torch.arange(blocks * size) % size < labels
    return Data(edge_index=edge_index, y=y, train_mask=train_mask, test_mask=~train_mask, num_nodes=blocks * size)


def ours(model: EnergyModel, data: Data) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # unreached nodes: counted in the table instead
        return model.propagate(data.y, data.edge_index, data.train_mask).label


def pyg(data: Data) -> Tensor:
    y = torch.where(data.train_mask, data.y, 0)
    return LabelPropagation(num_layers=50, alpha=0.9)(y, data.edge_index, data.train_mask).argmax(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description="CREPE and other models on a citation graph")
    shared = os.environ.get("TG_CREPE_DATA")
    default = Path(shared, "planetoid") if shared else None
    parser.add_argument("--root", type=Path, default=default, help="Planetoid's folder ($TG_CREPE_DATA/planetoid)")
    parser.add_argument("--name", choices=["Cora", "CiteSeer", "PubMed"], default="Cora")
    args = parser.parse_args()

    raw = None if args.root is None else args.root / args.name / "raw"
    if raw is not None and raw.is_dir():
        data, title = load(raw, args.name), f"{args.name}, public split"
    else:
        where = "neither --root nor TG_CREPE_DATA is set" if raw is None else f"there is no {raw}"
        print(f"{where}: this is a synthetic stand-in, not {args.name}")
        data, title = stand_in(), "stochastic block model (stand-in)"

    edges, labels, test = data.edge_index.size(1) // 2, int(data.train_mask.sum()), int(data.test_mask.sum())
    print(f"{title}: {data.num_nodes:,} nodes, {edges:,} edges, {labels} labels, error on {test:,} test nodes")
    print(f"{'model':<22}{'error %':>10}{'unreached':>12}{'seconds':>10}")
    models = {"CREPE": CrepePropagation(), "LGC": LGC(), "Harmonic": Harmonic(), "PyG LabelPropagation": None}
    for name, model in models.items():
        start = time.perf_counter()
        label = pyg(data) if model is None else ours(model, data)
        seconds = time.perf_counter() - start
        # A node that no label reaches has the label -1: an error.
        error = 100 * float((label != data.y)[data.test_mask].double().mean())
        unreached = int((label[data.test_mask] < 0).sum())
        print(f"{name:<22}{error:>10.1f}{unreached:>12}{seconds:>10.2f}")
    print("unreached: test nodes that no label reaches; ours leave them without a label, PyG calls them class 0")


if __name__ == "__main__":
    main()
