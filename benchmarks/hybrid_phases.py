"""The seconds of one alternating epoch at the size of Fashion-MNIST: features, graph, energy, network.

Run ``python benchmarks/hybrid_phases.py`` with ``TG_CREPE_DATA`` naming the data; it writes
``results/hybrid_phases.csv``.
"""

from __future__ import annotations

import os
from dataclasses import replace

from shared.machine import RESULTS, describe, write_csv

from tg_crepe.datasets import RandomLabelSplit, load_fashion_mnist
from tg_crepe.training import HybridTrainer, get_preset


def main() -> None:
    dataset, preset = load_fashion_mnist(os.environ["TG_CREPE_DATA"]), get_preset("fashion_mnist", "cpu")
    split = RandomLabelSplit(preset.labels, preset.unit, seed=100).draw(dataset)
    config = replace(preset.config, epochs=2, warmup_epochs=1)  # one supervised epoch, one alternating
    result = HybridTrainer(dataset, split, preset.backbone, config=config, verbose=True).fit()
    row = result.history[-1]
    seconds = {name: value for name, value in row.items() if name.endswith("_seconds")}
    about = {"dataset": dataset.name, "training_images": len(dataset.train), "labels": int(split.train_mask.sum())}
    command = "python benchmarks/hybrid_phases.py"
    write_csv([{**about, **seconds, "command": command, "machine": describe()}], RESULTS / "hybrid_phases.csv")
    print(about, seconds)


if __name__ == "__main__":
    main()
